//! Jobs: what may be asked of one, how it is accepted, run again and forgotten, and how those that wait for it are settled.
//! `host_core` has the job itself and its transitions.

mod apply;
mod cascade;
mod command;
mod enqueue;
mod foreign;
pub mod inputs;
mod params;
mod refusal;
mod results;
mod retry;

pub use self::cascade::Cascade;
pub(crate) use self::cascade::{Open, SETTLED_MAX};
pub use self::command::*;
pub(crate) use self::enqueue::check_scopes;
pub use self::refusal::*;
pub(crate) use self::results::INPUT_BYTES_MAX;
