//! The control plane over a host in memory: callbacks through the routes, dispatches to a worker that
//! the test plays over loopback.

mod bad_input;
mod captured;
mod dispatches;
pub(in crate::arco) mod fixture;
mod rules;
mod schema;
mod transcripts;
