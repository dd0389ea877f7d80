//! The wires: one folder per protocol, what a wire is to the host (`wire`), and what wires share:
//! sessions over byte streams (`stream`) and supervised child processes (`process`).
//!
//! A session decides, as a pure function of its state, its input and the time; a driver carries
//! bytes. Nothing here knows the store, the cells or the server: the ways inward are the doors of
//! `host_core::port`.

pub mod hero;
mod json;
pub mod process;
pub mod rrq;
pub mod stream;
pub mod wire;

#[cfg(test)]
mod tests;

pub use stream::session;
