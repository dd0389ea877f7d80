//! The worker session on a table: its rules, bad input and captured peers.

mod bad_input;
mod captured;
mod fixture;
mod rules;
mod transcripts;
