//! The routes behind their guards, over a host in memory.

mod bad_input;
mod bodies;
mod captured;
mod fixture;
mod leases;
mod nodes;
mod stale;
mod transcripts;
mod without_token;
