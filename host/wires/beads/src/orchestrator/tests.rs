//! The orchestrator role without sockets.

pub(crate) mod captured;
pub(crate) mod fixture;
mod rules;
mod transcripts;
