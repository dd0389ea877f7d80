//! Leases: claims, what workers say of theirs, and what is kept of an attempt that ends.

mod apply;
mod claim;
mod command;
mod refusal;

pub use self::command::*;
pub use self::refusal::*;
