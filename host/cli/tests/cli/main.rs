//! What each command prints and exits with, against a host whose answers are written down: a test
//! runs the real binary and compares requests, output and exit code with a snapshot.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod backup;
mod batch;
mod canned;
mod completion;
mod component;
mod deploy;
mod docs;
mod doctor;
mod handler;
mod hero;
mod import;
mod job;
mod limit;
mod many;
mod new;
mod node;
mod queue;
mod root;
mod runner;
mod schedule;
mod state;
mod store;
mod terminal;
mod token;
mod webhook;
