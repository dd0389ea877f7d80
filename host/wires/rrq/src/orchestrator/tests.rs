//! The orchestrator session without I/O: its rules and captured peers.

mod answers;
mod apart;
mod captured;
mod fixture;
mod rules;
mod transcripts;
