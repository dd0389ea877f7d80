//! The worker role with an executor in memory, over connections in memory and over loopback.

pub(crate) mod fixture;
mod limits;
mod sockets;
