//! What the wires share: byte streams, HTTP clients, child processes, waits and fields of JSON.
//! Knows no wire.

pub(crate) mod backoff;
pub mod http_client;
pub(crate) mod json;
pub(crate) mod owner;
pub mod process;
pub mod stream;
pub(crate) mod text;
pub(crate) mod trouble;
