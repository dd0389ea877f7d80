//! State that handlers keep: its changes are checked against what is stored, and made with the end of an attempt.

mod apply;
mod command;
mod refusal;
pub mod tables;

pub use self::apply::StateRows;
pub use self::command::*;
pub use self::refusal::*;
