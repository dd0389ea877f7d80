//! Starts and ends the real `host` for the test suites, and talks to it like any client. Uses only the public
//! contract.

mod balancer;
pub mod beads;
pub mod bombs;
pub mod browser;
pub mod certificates;
pub mod client;
pub mod cluster;
pub mod compiled;
pub mod database_server;
pub mod delta;
pub mod faulty;
pub mod from_wat;
pub mod guests;
pub mod names;
pub mod peers;
pub mod pool;
pub mod ports;
pub mod postgres;
pub mod processes;
pub mod projects;
pub mod raw;
pub mod redis;
pub mod reflector;
pub mod rrq;
pub mod secrets;
pub mod server;
pub mod supervisor;
pub mod tls_server;
mod wait;
pub mod worker;

pub use balancer::Balancer;
pub use client::Client;
pub use cluster::Cluster;
pub use redis::{Redis, Sentinel};
pub use server::{Options, Server};
pub use supervisor::Supervisor;
pub use wait::eventually;
pub use worker::{ArcoWorker, HeroWorker, Worker};
