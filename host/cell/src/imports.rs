//! The host functions that guests call: one file per WIT interface.

mod artifacts;
mod control;
mod filesystem;
mod http;
mod jobs;
mod limits;
mod log;
mod secrets;
mod sockets;
mod sql;
mod state;
mod steps;
mod wasi_http;
