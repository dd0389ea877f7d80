//! Queues: pausing and removing them.

mod apply;
mod command;
mod refusal;

pub use self::command::*;
pub use self::refusal::*;
