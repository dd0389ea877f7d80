//! Child processes of wires: started so that the kernel kills them with this host, listened to line
//! by line, ended with their whole group. Knows no wire: what a process does is reported through
//! [`ProcessEvents`].

mod launcher;
mod lines;
mod reason;
mod supervise;

#[cfg(test)]
mod tests;

pub use launcher::Launcher;
pub use lines::LINE_BYTES_MAX;
pub use reason::{REASON_CHARS_MAX, Reason};
pub use supervise::{ProcessError, ProcessEvents, Program, Stop, StopRequests, supervise};

/// Where a line about a process came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Its standard output.
    Stdout,
    /// Its standard error.
    Stderr,
    /// This host, about the process.
    Host,
}
