//! The base of wires over byte streams: a framing cuts the stream into the messages of a session.
//! Knows no wire.

pub mod framing;
pub mod lines;
pub mod listen;
pub mod session;

mod connection;
mod memory;
mod outbox;

#[cfg(test)]
mod tests;

pub use connection::serve_connection;
pub use framing::{Cut, Framing, Next, Pending};
pub use lines::{Endless, Lines};
pub use listen::{Listener, accept};
pub use session::{Peer, StreamSession};
