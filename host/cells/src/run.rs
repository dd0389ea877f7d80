//! The parts of a run: the deployed handlers, their limits and grants, and chains of them. Nothing here
//! does I/O.

pub mod build;
pub mod chain;
pub mod handlers;
pub mod order;
pub(crate) mod programs;
