//! Starts the real `host` for the suites, talks to it over HTTP as any client would, and ends it.
//! Knows the public contract only; nothing of the crates behind it.

pub mod client;
pub mod guests;
pub mod hero;
pub mod peers;
pub mod pool;
pub mod ports;
pub mod processes;
pub mod raw;
pub mod redis;
pub mod rrq;
pub mod server;
mod wait;
pub mod worker;

pub use client::Client;
pub use redis::Redis;
pub use server::{Options, Server};
pub use wait::eventually;
pub use worker::{HeroWorker, Worker};
