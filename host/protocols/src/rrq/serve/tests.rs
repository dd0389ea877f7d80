mod fixture;
mod limits;
mod sockets;
