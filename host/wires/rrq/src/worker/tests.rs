//! The worker session without I/O: its rules, bad input and captured peers.

mod bad_input;
mod captured;
mod fixture;
mod rules;
mod transcripts;
