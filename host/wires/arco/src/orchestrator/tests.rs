//! The control plane over a host in memory: callbacks through the routes, dispatches to a worker that
//! the test plays over loopback.

mod bad_input;
mod captured;
mod dispatches;
pub(crate) mod fixture;
mod logs;
mod nodes;
mod rules;
mod schema;
pub(crate) mod side;
mod transcripts;
