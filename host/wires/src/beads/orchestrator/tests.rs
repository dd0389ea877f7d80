//! The orchestrator role without sockets.

pub(in crate::beads) mod captured;
pub(in crate::beads) mod fixture;
mod rules;
mod transcripts;
