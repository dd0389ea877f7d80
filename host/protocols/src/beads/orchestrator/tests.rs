//! The orchestrator role without sockets.

mod captured;
pub(in crate::beads) mod fixture;
mod rules;
mod transcripts;
