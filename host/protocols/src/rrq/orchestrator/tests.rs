//! The orchestrator session without I/O: its rules and captured peers.

mod captured;
mod fixture;
mod rules;
mod transcripts;
