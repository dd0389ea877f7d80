//! What the wires share: sessions and their driver, byte streams, HTTP clients, leases, child processes,
//! and fields of JSON. Knows no wire.

pub mod driver;
pub(crate) mod fields;
pub mod http_client;
pub(crate) mod json;
pub mod leases;
pub(crate) mod owner;
pub mod process;
pub(crate) mod secret;
pub mod session;
pub mod stream;
pub(crate) mod text;
pub(crate) mod trouble;
