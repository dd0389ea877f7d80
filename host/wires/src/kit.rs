//! What the wires share: byte streams, HTTP clients, child processes, pauses and fields of JSON.
//! Knows no wire.

pub mod http_client;
pub(crate) mod json;
pub(crate) mod owner;
pub(crate) mod pause;
pub mod process;
pub mod stream;
pub(crate) mod text;
pub(crate) mod trouble;
