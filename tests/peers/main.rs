//! The real program and the real programs of other projects, end to end: each file is one promise.

#![expect(clippy::unwrap_used, reason = "a test ends where it fails")]

mod dialect;
mod external;
mod hero;
mod hero_bad_input;
mod hero_client;
mod hero_conformance;
mod hero_crashes;
mod hero_dispatch;
mod hero_foreign;
mod hero_gate;
mod hero_logs;
mod hero_redis;
mod hero_serve;
mod hero_tls;
mod hero_worker;
mod life;
mod neighbours;
mod orchestrator;
mod outcomes;
mod producer;
mod runner;
mod rust_runner;
mod servers;
mod timeouts;
mod witness;
