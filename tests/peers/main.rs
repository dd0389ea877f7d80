//! End-to-end tests with the real programs of other projects: one file per subject.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod cases;
mod clients;
mod corpus;
mod dashboard;
mod dashboard_host;
mod dashboard_jobs;
mod dashboard_safety;
mod dialect;
mod documents;
mod external;
mod first_handler;
mod first_real_job;
mod hero_bad_input;
mod hero_client;
mod hero_conformance;
mod hero_crashes;
mod hero_dispatch;
mod hero_foreign;
mod hero_gate;
mod hero_logs;
mod hero_places;
mod hero_redis;
mod hero_serve;
mod hero_slow;
mod hero_storm;
mod hero_tls;
mod hero_worker;
mod in_component;
mod languages;
mod life;
mod neighbors;
mod npm;
mod objects;
mod orchestrator;
mod outcomes;
mod packages;
mod producer;
mod redis_monitor;
mod runner;
mod rust_runner;
mod servers;
mod stops;
mod timeouts;
mod tls;
