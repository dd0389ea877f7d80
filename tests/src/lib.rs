//! Starts the real `host` for the suites, talks to it over HTTP as any client would, and ends it.
//! Knows the public contract only; nothing of the crates behind it.

pub mod client;
pub mod guests;
pub mod raw;
pub mod server;
mod wait;

pub use client::Client;
pub use server::{Options, Server};
pub use wait::eventually;
