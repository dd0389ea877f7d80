//! The orchestrator session on a table: its rules and captured peers.

mod captured;
mod fixture;
mod rules;
mod transcripts;
