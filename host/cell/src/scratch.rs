//! The scratch directory of a run: a file system of its own, whose content is in one file without a name that the
//! host passes. Reads and writes run on other threads, because a slow disk must not delay the other guests of the cell.

pub(crate) mod streams;
pub(crate) mod tree;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use bytes::Bytes;
use parking_lot::Mutex;
use rustix::io::Errno;
use wasmtime_wasi::p2::bindings::filesystem::types::OpenFlags;
use wasmtime_wasi::runtime::spawn_blocking;

use self::tree::{Inode, NODES_MAX, ROOT, Segment, Status, Tree};
use crate::limits::MemoryCharge;
use crate::run_output::RunOutput;

/// Where the guest sees it.
pub(crate) const PATH: &str = "/scratch";

/// The most that one call reads or writes, in bytes.
pub(crate) const CHUNK_BYTES_MAX: usize = 64 << 10;

/// How many zeros are written at a time, in bytes.
const ZEROS: usize = 1 << 20;

/// The file of a run, and how much of it may be used.
#[derive(Debug)]
pub(crate) struct ScratchFile {
    file: File,
    bytes: u64,
}

impl ScratchFile {
    pub(crate) const fn new(file: File, bytes: u64) -> Self {
        Self { file, bytes }
    }
}

struct Scratch {
    tree: Mutex<Tree>,
    file: Arc<File>,
    bytes: u64,
    output: Arc<RunOutput>,
    has_warned: AtomicBool,
}

impl Scratch {
    /// Writes to the log of the job, once, why a guest cannot write: its libraries may say no more than that it cannot.
    fn warn_if_full<T>(
        &self,
        result: io::Result<T>,
        why: impl FnOnce() -> String,
    ) -> io::Result<T> {
        let code = result.as_ref().err().and_then(io::Error::raw_os_error);
        let is_full = code == Some(Errno::NOSPC.raw_os_error());
        if is_full && !self.has_warned.swap(true, Ordering::Relaxed) {
            self.output.warn(why());
        }
        result
    }

    fn full(&self) -> String {
        format!(
            "the scratch directory is full: it may have {} MiB and {NODES_MAX} files and folders; remove some, or raise \
             scratch in the manifest",
            self.bytes >> 20
        )
    }
}

/// A file or folder that is in use.
pub(crate) struct OpenNode {
    scratch: Arc<Scratch>,
    inode: Inode,
}

impl Clone for OpenNode {
    fn clone(&self) -> Self {
        self.scratch.tree.lock().open_again(self.inode);
        Self {
            scratch: Arc::clone(&self.scratch),
            inode: self.inode,
        }
    }
}

impl Drop for OpenNode {
    fn drop(&mut self) {
        self.scratch.tree.lock().close(self.inode);
    }
}

impl OpenNode {
    /// Returns the root of an empty scratch directory with the content in `file`, and its names in `memory`.
    pub(crate) fn root(
        ScratchFile { file, bytes }: ScratchFile,
        memory: MemoryCharge,
        output: Arc<RunOutput>,
    ) -> Self {
        let mut tree = Tree::new(bytes, memory);
        tree.open_again(ROOT);
        let scratch = Scratch {
            tree: Mutex::new(tree),
            file: Arc::new(file),
            bytes,
            output,
            has_warned: AtomicBool::new(false),
        };
        Self {
            scratch: Arc::new(scratch),
            inode: ROOT,
        }
    }

    fn with_tree<T>(&self, act: impl FnOnce(&mut Tree) -> tree::Result<T>) -> io::Result<T> {
        let acted = act(&mut self.scratch.tree.lock());
        let scratch = &self.scratch;
        scratch.warn_if_full(acted.map_err(io::Error::from), || scratch.full())
    }

    pub(crate) fn open(&self, path: &str, how: OpenFlags, writes: bool) -> io::Result<Self> {
        let inode = self.with_tree(|tree| tree.open(self.inode, path, how, writes))?;
        let scratch = Arc::clone(&self.scratch);
        Ok(Self { scratch, inode })
    }

    pub(crate) fn make_folder(&self, path: &str) -> io::Result<()> {
        self.with_tree(|tree| tree.make_folder(self.inode, path))
    }

    pub(crate) fn remove(&self, path: &str, is_folder: bool) -> io::Result<()> {
        self.with_tree(|tree| tree.remove(self.inode, path, is_folder))
    }

    pub(crate) fn rename(&self, path: &str, to: &Self, new_path: &str) -> io::Result<()> {
        self.with_tree(|tree| tree.rename(self.inode, path, to.inode, new_path))
    }

    pub(crate) fn status(&self) -> io::Result<Status> {
        self.with_tree(|tree| tree.status(self.inode))
    }

    pub(crate) fn status_at(&self, path: &str) -> io::Result<Status> {
        self.with_tree(|tree| {
            let inode = tree.find(self.inode, path)?;
            tree.status(inode)
        })
    }

    pub(crate) fn set_modified(&self, path: Option<&str>, at: SystemTime) -> io::Result<()> {
        self.with_tree(|tree| {
            let found = path.map(|path| tree.find(self.inode, path)).transpose()?;
            tree.set_modified(found.unwrap_or(self.inode), at)
        })
    }

    pub(crate) fn next_entry(&self, last: Option<&str>) -> io::Result<Option<(String, Status)>> {
        self.with_tree(|tree| tree.next_entry(self.inode, last))
    }

    /// Reads at most `len` bytes. Nothing is read at the end of the file.
    pub(crate) async fn read(self, offset: u64, len: usize) -> io::Result<Bytes> {
        let segments = self.with_tree(|tree| {
            let Status {
                is_folder, size, ..
            } = tree.status(self.inode)?;
            if is_folder {
                return Err(Errno::ISDIR);
            }
            let left = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX);
            tree.segments(self.inode, offset, len.min(left).min(CHUNK_BYTES_MAX))
        })?;
        if segments.is_empty() {
            return Ok(Bytes::new());
        }
        let file = Arc::clone(&self.scratch.file);
        spawn_blocking(move || {
            let mut content = vec![0; segments.iter().map(|it| it.len).sum()];
            let mut rest = &mut content[..];
            for Segment { position, len } in segments {
                let (part, after) = rest.split_at_mut(len);
                file.read_exact_at(part, position)?;
                rest = after;
            }
            Ok(content.into())
        })
        .await
    }

    /// Writes all of `content`, or fails. Bytes between the end of the file and `offset` become zeros.
    pub(crate) async fn write(self, offset: u64, content: Bytes) -> io::Result<()> {
        let len = content.len() as u64;
        let end = offset.checked_add(len).ok_or(Errno::FBIG)?;
        let size = self.status()?.size;
        self.with_tree(|tree| tree.reserve(self.inode, end))?;
        let written = async {
            self.put_zeros(size, offset).await?;
            self.put(offset, content).await?;
            self.with_tree(|tree| tree.grow(self.inode, end))
        };
        self.finish(written.await)
    }

    /// Writes behind the end of the file.
    pub(crate) async fn append(self, content: Bytes) -> io::Result<()> {
        let end = self.status()?.size;
        self.write(end, content).await
    }

    /// Cuts the file, or appends zeros.
    pub(crate) async fn set_size(self, end: u64) -> io::Result<()> {
        let size = self.status()?.size;
        if end <= size {
            return self.with_tree(|tree| tree.truncate(self.inode, end));
        }
        self.with_tree(|tree| tree.reserve(self.inode, end))?;
        let written = async {
            self.put_zeros(size, end).await?;
            self.with_tree(|tree| tree.grow(self.inode, end))
        };
        self.finish(written.await)
    }

    /// Gives back what was reserved for a write that failed.
    fn finish(&self, written: io::Result<()>) -> io::Result<()> {
        if written.is_err() {
            self.with_tree(|tree| tree.truncate(self.inode, u64::MAX))?;
        }
        written
    }

    async fn put_zeros(&self, from: u64, to: u64) -> io::Result<()> {
        let mut at = from;
        while at < to {
            let len = usize::try_from(to - at).unwrap_or(ZEROS).min(ZEROS);
            self.put(at, Bytes::from(vec![0; len])).await?;
            at += len as u64;
        }
        Ok(())
    }

    /// Writes into blocks that are reserved.
    async fn put(&self, offset: u64, content: Bytes) -> io::Result<()> {
        let segments = self.with_tree(|tree| tree.segments(self.inode, offset, content.len()))?;
        let file = Arc::clone(&self.scratch.file);
        let written = spawn_blocking(move || {
            let mut rest = &content[..];
            for Segment { position, len } in segments {
                let (part, after) = rest.split_at(len);
                file.write_all_at(part, position)?;
                rest = after;
            }
            Ok(())
        });
        self.scratch.warn_if_full(written.await, || {
            "the disk of the host, which has the scratch directory, is full".to_owned()
        })
    }
}
