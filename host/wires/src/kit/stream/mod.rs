//! The base of wires over byte streams: a framing cuts the stream, a session decides, and the
//! driver carries bytes, time and effects. Knows no wire.

pub mod driver;
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
pub use driver::{CONNECTIONS_MAX, EffectHandler, Hub};
pub use framing::{Cut, Framing, Next, Pending};
pub use lines::{Endless, Lines};
pub use listen::{Listener, accept};
pub use session::{Action, Actions, ActionsOf, Link, Moment, Peer, Session};
