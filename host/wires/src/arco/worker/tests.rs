//! The worker between a sandbox in memory and a control plane that the test plays over loopback.

mod captured;
mod dispatches;
mod ends;
pub(in crate::arco) mod fixture;
mod life;
mod orders;
mod restarts;
pub(in crate::arco) mod side;
mod transcripts;
