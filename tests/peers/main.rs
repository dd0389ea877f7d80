//! The real program and the real programs of other projects, end to end: each file is one promise.

#![expect(clippy::unwrap_used, reason = "a test ends where it fails")]

mod dialect;
mod external;
mod hero;
mod hero_bad_input;
mod hero_conformance;
mod hero_crashes;
mod hero_serve;
mod life;
mod neighbours;
mod orchestrator;
mod outcomes;
mod producer;
mod runner;
mod servers;
mod timeouts;
mod witness;
