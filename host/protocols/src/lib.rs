//! The wires: one folder per protocol, what they are to the host (`wire`), and what the stream
//! protocols share.
//!
//! A session decides, as a pure function of its state, a message and the time; the driver moves
//! bytes. Nothing here knows the store, the cells or the server: the ways inward are the doors of
//! `host_core::port`.

pub mod hero;
mod json;
pub mod process;
pub mod rrq;
#[cfg(test)]
mod sample;
pub mod stream;
pub mod wire;

#[cfg(test)]
mod tests;
