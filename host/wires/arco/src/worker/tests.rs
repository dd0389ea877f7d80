//! The worker between a sandbox in memory and a control plane that the test plays over loopback.

mod captured;
mod dispatches;
mod ends;
pub(crate) mod fixture;
mod life;
mod orders;
mod restarts;
pub(crate) mod side;
mod transcripts;
