//! What the rest of the host knows of a wire without speaking it: its name, its roles, its port,
//! and how its connections come in.

use std::future::Future;
use std::io;

use tokio::io::{AsyncRead, AsyncWrite};

/// A side of a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A foreign orchestrator gives us work.
    Worker,
    /// Foreign runners do our work.
    Orchestrator,
}

/// One wire.
#[derive(Debug)]
pub struct Adapter {
    /// Its name in configuration, on the command line and in metrics.
    pub name: &'static str,
    /// The sides of it that we speak.
    pub roles: &'static [Role],
    /// Where it listens on loopback unless configured otherwise.
    pub port: u16,
    /// Every code of a refusal on it, with what the code means and what to do.
    pub codes: &'static [(&'static str, &'static str)],
}

/// Where the connections of a stream wire come from.
pub trait Listener: Send {
    /// One connection.
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// Waits for the next connection. Cancel safe.
    fn accept(&mut self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}
