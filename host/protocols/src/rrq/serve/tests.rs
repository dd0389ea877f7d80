pub(crate) mod fixture;
mod limits;
mod sockets;
