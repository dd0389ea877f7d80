//! Artifacts: files that a job produces, and files that it reads.

use std::io;
use std::rc::Rc;

use crate::services::Services;
use crate::store::StoreError;

/// The most that is sent to the host in one call, in bytes.
const CHUNK_BYTES: usize = 1 << 20;

/// The most that one call reads, in bytes.
const READ_BYTES: u32 = 1 << 20;

/// The files that the job produces and reads. See [`Ctx::artifacts`](crate::Ctx::artifacts).
#[derive(Clone, Copy)]
pub struct Artifacts<'a> {
    services: &'a Rc<dyn Services>,
}

impl<'a> Artifacts<'a> {
    pub(crate) const fn new(services: &'a Rc<dyn Services>) -> Self {
        Self { services }
    }

    /// Begins a file of any type.
    pub fn create(self, name: &str) -> Result<ArtifactWriter, StoreError> {
        self.begin(name, None)
    }

    /// Begins a file with a content type, such as `text/csv`.
    pub fn create_as(self, name: &str, content_type: &str) -> Result<ArtifactWriter, StoreError> {
        self.begin(name, Some(content_type))
    }

    /// Opens a file that the job was enqueued with, by its name in `files`.
    pub fn open(self, name: &str) -> Result<ArtifactReader, StoreError> {
        Ok(ArtifactReader {
            number: self.services.artifact_open(name)?,
            services: Rc::clone(self.services),
            unread: Vec::new(),
            at: 0,
        })
    }

    fn begin(self, name: &str, content_type: Option<&str>) -> Result<ArtifactWriter, StoreError> {
        Ok(ArtifactWriter {
            number: self.services.artifact_create(name, content_type)?,
            services: Rc::clone(self.services),
            unsent: Vec::new(),
        })
    }
}

/// A file that is being written. It is kept only if it is closed.
#[must_use = "an artifact is kept only if it is closed"]
pub struct ArtifactWriter {
    services: Rc<dyn Services>,
    number: u32,
    unsent: Vec<u8>,
}

impl ArtifactWriter {
    /// Ends the file, which is kept exactly if the attempt completes.
    pub fn close(mut self) -> Result<(), StoreError> {
        self.send()?;
        self.services.artifact_close(self.number)
    }

    fn send(&mut self) -> Result<(), StoreError> {
        if self.unsent.is_empty() {
            return Ok(());
        }
        let content = std::mem::take(&mut self.unsent);
        self.services.artifact_write(self.number, &content)
    }
}

/// A file that is being read.
pub struct ArtifactReader {
    services: Rc<dyn Services>,
    number: u32,
    /// What the host has sent, read up to `at`.
    unread: Vec<u8>,
    at: usize,
}

impl io::BufRead for ArtifactReader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at == self.unread.len() {
            let read = self.services.artifact_read(self.number, READ_BYTES);
            self.unread = read.map_err(broken)?;
            self.at = 0;
        }
        Ok(&self.unread[self.at..])
    }

    fn consume(&mut self, bytes: usize) {
        self.at += bytes;
    }
}

impl io::Read for ArtifactReader {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let length = io::Read::read(&mut io::BufRead::fill_buf(self)?, to)?;
        io::BufRead::consume(self, length);
        Ok(length)
    }
}

impl Drop for ArtifactReader {
    fn drop(&mut self) {
        // One that stays open costs nothing after the attempt.
        let _ = self.services.artifact_close(self.number);
    }
}

fn broken(error: StoreError) -> io::Error {
    io::Error::other(error.message)
}

impl io::Write for ArtifactWriter {
    fn write(&mut self, content: &[u8]) -> io::Result<usize> {
        let room = CHUNK_BYTES - self.unsent.len();
        let taken = &content[..content.len().min(room)];
        self.unsent.extend_from_slice(taken);
        if self.unsent.len() == CHUNK_BYTES {
            self.send().map_err(broken)?;
        }
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send().map_err(broken)
    }
}
