//! The standard output and error of a process. One task reads them to their end; others may drain them, to
//! get the output before another event of the process.

use std::io;
use std::os::fd::OwnedFd;

use parking_lot::{Mutex, MutexGuard};
use rustix::io::retry_on_intr;
use tokio::net::unix::pipe::Receiver;
use tokio::process::Child;

use super::Output;
use super::lines::{LINE_BYTES_MAX, LineBuffer};

/// How many bytes a pipe holds at most. A drain reads no more, so a process that never stops
/// writing cannot hold it up.
const PIPE_BYTES: usize = 64 << 10;

/// Both pipes of one process.
#[derive(Debug)]
pub struct Pipes {
    stdout: Pipe,
    stderr: Pipe,
}

#[derive(Debug)]
struct Pipe {
    from: Receiver,
    /// Locked while lines are read and passed on, so that their order is kept.
    lines: Mutex<LineBuffer>,
}

impl Pipes {
    pub(super) fn take(child: &mut Child) -> io::Result<Self> {
        let closed = || io::Error::other("its output is not piped");
        let stdout = child.stdout.take().ok_or_else(closed)?;
        let stderr = child.stderr.take().ok_or_else(closed)?;
        Ok(Self {
            stdout: Pipe::new(stdout.into_owned_fd()?)?,
            stderr: Pipe::new(stderr.into_owned_fd()?)?,
        })
    }

    /// Passes on every line that the process has written so far. Never waits for the process.
    pub fn drain(&self, mut wrote: impl FnMut(Output, &str)) {
        self.stdout.drain(|line| wrote(Output::Stdout, line));
        self.stderr.drain(|line| wrote(Output::Stderr, line));
    }

    /// Passes on all lines until both pipes are closed.
    pub(super) async fn read_to_end(&self, wrote: impl Fn(Output, &str)) {
        tokio::join!(
            self.stdout.read_to_end(|line| wrote(Output::Stdout, line)),
            self.stderr.read_to_end(|line| wrote(Output::Stderr, line)),
        );
    }
}

impl Pipe {
    fn new(from: OwnedFd) -> io::Result<Self> {
        Ok(Self {
            from: Receiver::from_owned_fd(from)?,
            lines: Mutex::default(),
        })
    }

    fn lines(&self) -> MutexGuard<'_, LineBuffer> {
        self.lines.lock()
    }

    fn drain(&self, mut line: impl FnMut(&str)) {
        let mut lines = self.lines();
        let mut chunk = [0; LINE_BYTES_MAX];
        let mut rest = PIPE_BYTES;
        // Read the pipe directly, because the runtime may not know yet that it is readable.
        while rest > 0
            && let Ok(bytes @ 1..) = retry_on_intr(|| rustix::io::read(&self.from, &mut chunk))
        {
            lines.push(&chunk[..bytes], &mut line);
            rest = rest.saturating_sub(bytes);
        }
    }

    async fn read_to_end(&self, mut line: impl FnMut(&str)) {
        while self.from.readable().await.is_ok() {
            match self.read(&mut line) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
        }
        self.lines().finish(line);
    }

    fn read(&self, line: impl FnMut(&str)) -> io::Result<usize> {
        let mut lines = self.lines();
        let mut chunk = [0; LINE_BYTES_MAX];
        let bytes = self.from.try_read(&mut chunk)?;
        lines.push(&chunk[..bytes], line);
        Ok(bytes)
    }
}
