//! The process's own log on standard error. A line that cannot be written ends nothing: it is counted, and the
//! next line that can be written follows a note of how many are missing.

use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use crate::folder;
use crate::owner::Owner;

/// Lines that were lost.
static LOSSES: Mutex<Losses> = Mutex::new(Losses::NONE);

/// Where the lines of a log go. A write never fails.
pub struct LogWriter<W> {
    out: W,
    /// Words a line that says how many are missing.
    note: fn(u64) -> String,
    losses: &'static Mutex<Losses>,
}

/// The lines that could not be written.
struct Losses {
    total: u64,
    /// Since the last note.
    unreported: u64,
    /// Whether the last line was written in part.
    is_cut: bool,
}

impl Losses {
    const NONE: Self = Self {
        total: 0,
        unreported: 0,
        is_cut: false,
    };
}

/// Returns how many lines of this process's log could not be written.
pub fn lost_lines() -> u64 {
    LOSSES.lock().total
}

impl LogWriter<io::Stderr> {
    /// Writes to standard error. `note` words a line that says how many lines are missing.
    pub fn stderr(note: fn(u64) -> String) -> Self {
        Self {
            out: io::stderr(),
            note,
            losses: &LOSSES,
        }
    }
}

impl<W: Write> LogWriter<W> {
    /// Writes one line, after a note of those that are missing.
    fn write_line(&mut self, line: &[u8]) {
        let mut losses = self.losses.lock();
        let mut text = Vec::new();
        if losses.is_cut {
            text.push(b'\n');
        }
        if losses.unreported > 0 {
            text.extend((self.note)(losses.unreported).into_bytes());
        }
        text.extend_from_slice(line);
        match write_until_error(&mut self.out, &text) {
            Ok(()) => {
                losses.unreported = 0;
                losses.is_cut = false;
            }
            Err(written) => {
                losses.total += 1;
                losses.unreported += 1;
                losses.is_cut |= written > 0;
            }
        }
    }
}

/// Writes all of `text`. The error is how many bytes were written before one.
fn write_until_error(out: &mut impl Write, text: &[u8]) -> Result<(), usize> {
    let mut written = 0;
    while written < text.len() {
        match out.write(&text[written..]) {
            Ok(0) => return Err(written),
            Ok(bytes) => written += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Err(written),
        }
    }
    out.flush().map_err(|_| written)
}

impl<W: Write> Write for LogWriter<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.write_line(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The files to which standard output and standard error of this process were redirected.
#[derive(Debug)]
pub(crate) struct OutputFiles {
    stdout: Option<PathBuf>,
    stderr: Option<PathBuf>,
}

impl OutputFiles {
    /// Finds them. Call it before another process may rename them.
    pub(crate) fn find() -> Self {
        Self {
            stdout: path(io::stdout().as_fd(), "/proc/self/fd/1"),
            stderr: path(io::stderr().as_fd(), "/proc/self/fd/2"),
        }
    }

    /// Opens the files again by their names, where another process has moved them away. Blocks.
    pub(crate) fn reopen(&self) {
        let (stdout, stderr) = (io::stdout(), io::stderr());
        for (path, fd) in [
            (&self.stdout, stdout.as_fd()),
            (&self.stderr, stderr.as_fd()),
        ] {
            if let Some(path) = path {
                report(path, reopen(path, fd));
            }
        }
    }
}

/// Returns the path of the regular file that is open as `fd`.
fn path(fd: BorrowedFd<'_>, link: &str) -> Option<PathBuf> {
    let path = fs::read_link(link).ok()?;
    let is_regular = fs::symlink_metadata(&path).is_ok_and(|found| found.is_file());
    (is_regular && is_at(&path, fd).ok()?).then_some(path)
}

/// Returns whether the file at `path` is the one that is open as `fd`.
fn is_at(path: &Path, fd: BorrowedFd<'_>) -> io::Result<bool> {
    let open = rustix::fs::fstat(fd)?;
    match fs::symlink_metadata(path) {
        Ok(found) => Ok((found.dev(), found.ino()) == (open.st_dev, open.st_ino)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns whether `fd` is another file now.
fn reopen(path: &Path, fd: BorrowedFd<'_>) -> io::Result<bool> {
    if is_at(path, fd)? {
        return Ok(false);
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(false);
    };
    let append = || folder::append(&folder::open(parent)?, Path::new(name));
    let file = Owner::find(parent)?.act(append)??;
    // SAFETY: a standard descriptor stays open and is another file from now on.
    match unsafe { libc::dup2(file.as_raw_fd(), fd.as_raw_fd()) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(true),
    }
}

fn report(path: &Path, reopened: io::Result<bool>) {
    let path = path.display();
    match reopened {
        Ok(true) => tracing::info!(%path, "the output was opened again"),
        Ok(false) => {}
        Err(error) => tracing::error!(
            %path,
            %error,
            "cannot open the output again; what was open stays in use"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An output with room for this many bytes.
    #[derive(Default)]
    struct Bounded {
        room: usize,
        text: Vec<u8>,
    }

    impl Write for Bounded {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.room == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let bytes = &bytes[..bytes.len().min(self.room)];
            self.room -= bytes.len();
            self.text.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lost_lines_are_counted_and_reported_by_the_next_that_is_written() {
        static LOST: Mutex<Losses> = Mutex::new(Losses::NONE);
        let mut log = LogWriter {
            out: Bounded::default(),
            note: |lost| format!("{lost} lost\n"),
            losses: &LOST,
        };
        let mut write = |room, line: &str| {
            log.out.room = room;
            log.write_all(line.as_bytes()).unwrap();
            String::from_utf8(std::mem::take(&mut log.out.text)).unwrap()
        };
        assert_eq!(write(100, "one\n"), "one\n");
        assert_eq!(write(0, "two\n"), "");
        assert_eq!(write(2, "three\n"), "1 ");
        assert_eq!(write(0, "four\n"), "");
        assert_eq!(write(100, "five\n"), "\n3 lost\nfive\n");
        assert_eq!(write(100, "six\n"), "six\n");
        assert_eq!(LOST.lock().total, 3);
    }
}
