//! The rules of `host`: what a job is, which inputs it accepts in each state, and what they do.
//!
//! Every decision here is a pure function of (state, input, now). This crate has no clock, no
//! randomness, no I/O, no async and no wire; callers pass the time and ready-made ids.

pub mod access;
pub mod artifact;
pub mod cell;
pub mod chain;
pub mod cost;
pub mod desk;
pub mod egress;
pub mod encoding;
pub mod failure;
pub mod glob;
pub mod grant_words;
pub mod graph;
pub mod handler;
pub mod hex;
pub mod http_grant;
pub mod id;
pub mod invariants;
pub mod job;
pub mod jobs_grant;
pub mod json;
pub mod lease;
pub mod name;
pub mod notify;
pub mod outcome;
pub mod policy;
pub mod port;
pub mod prerequisite;
pub mod problem;
pub mod query;
pub mod requests;
pub mod seconds;
pub mod secret;
pub mod state;
pub mod step;
pub mod suspicion;
pub mod tcp_grant;
pub mod time;
pub mod trace;
pub mod transition;
pub mod trend;
pub mod writes;
