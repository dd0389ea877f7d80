//! Child processes of wires: starts them so that the kernel kills them with this host, reads their
//! output line by line, and ends them with their whole process group, or with their whole tree if a supervisor
//! starts them. Knows no wire: reports to [`ProcessEvents`].

mod launcher;
mod lines;
mod output;
mod reason;
mod supervise;
pub mod supervisor;

#[cfg(test)]
mod tests;

pub use launcher::Launcher;
pub use lines::LINE_BYTES_MAX;
pub use output::Pipes;
pub use reason::{REASON_CHARS_MAX, Reason};
pub use supervise::{ProcessError, ProcessEvents, Program, Stop, StopRequests, supervise};

/// Where a line about a process came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    Stdout,
    Stderr,
    /// A message of this host about the process.
    Host,
}
