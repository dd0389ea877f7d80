//! The files and folders of a scratch directory: their names and sizes, and which blocks of the run's one file
//! have their content. Does no I/O.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::SystemTime;

use rustix::io::Errno;
use wasmtime_wasi::p2::bindings::filesystem::types::OpenFlags;

use crate::limits::MemoryCharge;

/// The unit in which the quota is given out, in bytes.
pub(crate) const BLOCK_BYTES: u64 = 16 << 10;

/// The most files and folders.
pub(crate) const NODES_MAX: usize = 10_000;

/// The longest name, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// The longest path, in bytes.
const PATH_BYTES_MAX: usize = 4_096;

/// The memory that a file or folder takes with its name, in bytes.
const NODE_BYTES: usize = 512;

/// The number of a file or folder; never used again.
pub(crate) type Inode = u64;

pub(crate) const ROOT: Inode = 1;

pub(crate) type Result<T> = std::result::Result<T, Errno>;

/// Returns the time that files show.
#[expect(
    clippy::disallowed_methods,
    reason = "guests compare the times of files with their own clock, which is the wall clock"
)]
pub(crate) fn wall_time() -> SystemTime {
    SystemTime::now()
}

/// What is known about a file or folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) inode: Inode,
    pub(crate) is_folder: bool,
    pub(crate) size: u64,
    pub(crate) modified_at: SystemTime,
}

/// A part of the run's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) position: u64,
    pub(crate) len: usize,
}

#[derive(Debug)]
struct Node {
    content: Content,
    parent: Inode,
    /// How many descriptors and streams use it.
    opens: u32,
    /// Whether it has a name.
    is_linked: bool,
    modified_at: SystemTime,
}

#[derive(Debug)]
enum Content {
    File { size: u64, blocks: Vec<u32> },
    Folder(BTreeMap<String, Inode>),
}

/// The blocks of the run's file.
#[derive(Debug)]
struct Blocks {
    max: u32,
    /// How many were used once: those below this number.
    touched: u32,
    free: Vec<u32>,
}

impl Blocks {
    fn left(&self) -> u64 {
        u64::from(self.max - self.touched) + self.free.len() as u64
    }

    fn take(&mut self) -> Option<u32> {
        self.free.pop().or_else(|| {
            let fresh = self.touched;
            (fresh < self.max).then(|| {
                self.touched += 1;
                fresh
            })
        })
    }
}

#[derive(Debug)]
pub(crate) struct Tree {
    nodes: BTreeMap<Inode, Node>,
    next: Inode,
    blocks: Blocks,
    memory: MemoryCharge,
}

impl Tree {
    /// Makes an empty one, whose files together have at most `bytes`, and whose names count as `memory`.
    pub(crate) fn new(bytes: u64, memory: MemoryCharge) -> Self {
        let max = u32::try_from(bytes / BLOCK_BYTES).unwrap_or(u32::MAX);
        let root = Node {
            content: Content::Folder(BTreeMap::new()),
            parent: ROOT,
            opens: 0,
            is_linked: true,
            modified_at: wall_time(),
        };
        Self {
            nodes: BTreeMap::from([(ROOT, root)]),
            next: ROOT + 1,
            blocks: Blocks {
                max,
                touched: 0,
                free: Vec::new(),
            },
            memory,
        }
    }

    fn node(&self, inode: Inode) -> Result<&Node> {
        self.nodes.get(&inode).ok_or(Errno::BADF)
    }

    fn node_mut(&mut self, inode: Inode) -> Result<&mut Node> {
        self.nodes.get_mut(&inode).ok_or(Errno::BADF)
    }

    fn entries(&self, inode: Inode) -> Result<&BTreeMap<String, Inode>> {
        match &self.node(inode)?.content {
            Content::Folder(entries) => Ok(entries),
            Content::File { .. } => Err(Errno::NOTDIR),
        }
    }

    fn entries_mut(&mut self, inode: Inode) -> Result<&mut BTreeMap<String, Inode>> {
        let node = self.node_mut(inode)?;
        node.modified_at = wall_time();
        match &mut node.content {
            Content::Folder(entries) => Ok(entries),
            Content::File { .. } => Err(Errno::NOTDIR),
        }
    }

    /// Follows a path from the folder `base`, out of which it may not lead, up to its last name.
    fn walk<'a>(&self, base: Inode, path: &'a str) -> Result<(Inode, Option<&'a str>)> {
        if path.is_empty() {
            return Err(Errno::NOENT);
        }
        if path.starts_with('/') {
            return Err(Errno::PERM);
        }
        if path.len() > PATH_BYTES_MAX {
            return Err(Errno::NAMETOOLONG);
        }
        self.entries(base)?;
        let (mut at, mut depth, mut last) = (base, 0_usize, None);
        for name in path.split('/').filter(|name| !matches!(*name, "" | ".")) {
            if let Some(folder) = last.take() {
                at = *self.entries(at)?.get(folder).ok_or(Errno::NOENT)?;
                self.entries(at)?;
                depth += 1;
            }
            if name == ".." {
                depth = depth.checked_sub(1).ok_or(Errno::PERM)?;
                at = self.node(at)?.parent;
            } else if name.len() > NAME_BYTES_MAX {
                return Err(Errno::NAMETOOLONG);
            } else if name.contains('\0') {
                return Err(Errno::INVAL);
            } else {
                last = Some(name);
            }
        }
        Ok((at, last))
    }

    /// Returns the file or folder at a path.
    pub(crate) fn find(&self, base: Inode, path: &str) -> Result<Inode> {
        let (folder, name) = self.walk(base, path)?;
        let Some(name) = name else {
            return Ok(folder);
        };
        let found = *self.entries(folder)?.get(name).ok_or(Errno::NOENT)?;
        if path.ends_with('/') {
            self.entries(found)?;
        }
        Ok(found)
    }

    fn insert(&mut self, parent: Inode, name: &str, content: Content) -> Result<Inode> {
        if !self.node(parent)?.is_linked {
            return Err(Errno::NOENT);
        }
        if self.nodes.len() > NODES_MAX {
            return Err(Errno::NOSPC);
        }
        self.memory.add(NODE_BYTES).map_err(|_| Errno::NOMEM)?;
        let inode = self.next;
        self.next += 1;
        self.entries_mut(parent)?.insert(name.to_owned(), inode);
        let node = Node {
            content,
            parent,
            opens: 0,
            is_linked: true,
            modified_at: wall_time(),
        };
        self.nodes.insert(inode, node);
        Ok(inode)
    }

    /// Opens a file or folder, which counts until [`Tree::close`].
    pub(crate) fn open(
        &mut self,
        base: Inode,
        path: &str,
        how: OpenFlags,
        writes: bool,
    ) -> Result<Inode> {
        let creates = how.contains(OpenFlags::CREATE);
        let truncates = how.contains(OpenFlags::TRUNCATE);
        let wants_folder = how.contains(OpenFlags::DIRECTORY);
        let inode = match self.find(base, path) {
            Ok(_) if creates && how.contains(OpenFlags::EXCLUSIVE) => return Err(Errno::EXIST),
            Ok(found) => found,
            Err(Errno::NOENT) if creates && !wants_folder && !path.ends_with('/') => {
                let (parent, name) = self.walk(base, path)?;
                let (size, blocks) = (0, Vec::new());
                let name = name.ok_or(Errno::NOENT)?;
                self.insert(parent, name, Content::File { size, blocks })?
            }
            Err(error) => return Err(error),
        };
        let is_folder = self.status(inode)?.is_folder;
        if wants_folder && !is_folder {
            return Err(Errno::NOTDIR);
        }
        if is_folder && (truncates || creates || writes) {
            return Err(Errno::ISDIR);
        }
        if truncates {
            self.truncate(inode, 0)?;
        }
        self.open_again(inode);
        Ok(inode)
    }

    /// Counts one more user.
    pub(crate) fn open_again(&mut self, inode: Inode) {
        if let Ok(node) = self.node_mut(inode) {
            node.opens += 1;
        }
    }

    /// Counts one user less. What has neither a name nor users is gone.
    pub(crate) fn close(&mut self, inode: Inode) {
        if let Ok(node) = self.node_mut(inode) {
            node.opens = node.opens.saturating_sub(1);
        }
        self.forget_unused(inode);
    }

    fn forget_unused(&mut self, inode: Inode) {
        if self
            .node(inode)
            .is_ok_and(|it| it.opens == 0 && !it.is_linked)
            && let Some(node) = self.nodes.remove(&inode)
        {
            self.memory.give_back(NODE_BYTES);
            if let Content::File { blocks, .. } = node.content {
                self.blocks.free.extend(blocks);
            }
        }
    }

    pub(crate) fn make_folder(&mut self, base: Inode, path: &str) -> Result<()> {
        let (parent, name) = self.walk(base, path)?;
        let name = name.ok_or(Errno::EXIST)?;
        if self.entries(parent)?.contains_key(name) {
            return Err(Errno::EXIST);
        }
        self.insert(parent, name, Content::Folder(BTreeMap::new()))?;
        Ok(())
    }

    /// Removes a file, or an empty folder.
    pub(crate) fn remove(&mut self, base: Inode, path: &str, is_folder: bool) -> Result<()> {
        let inode = self.find(base, path)?;
        let (parent, name) = self.walk(base, path)?;
        let name = name.ok_or(Errno::INVAL)?;
        match (self.entries(inode), is_folder) {
            (Ok(entries), true) if !entries.is_empty() => return Err(Errno::NOTEMPTY),
            (Ok(_), false) => return Err(Errno::ISDIR),
            (Err(error), true) => return Err(error),
            _ => {}
        }
        self.unlink(parent, name)
    }

    fn unlink(&mut self, parent: Inode, name: &str) -> Result<()> {
        let inode = self.entries_mut(parent)?.remove(name).ok_or(Errno::NOENT)?;
        self.node_mut(inode)?.is_linked = false;
        self.forget_unused(inode);
        Ok(())
    }

    /// Moves a file or folder. A file, or an empty folder, that has the new name is replaced by one of its kind.
    pub(crate) fn rename(
        &mut self,
        base: Inode,
        path: &str,
        new_base: Inode,
        new_path: &str,
    ) -> Result<()> {
        let inode = self.find(base, path)?;
        let (parent, name) = self.walk(base, path)?;
        let (new_parent, new_name) = self.walk(new_base, new_path)?;
        let (name, new_name) = (name.ok_or(Errno::BUSY)?, new_name.ok_or(Errno::BUSY)?);
        if !self.node(new_parent)?.is_linked {
            return Err(Errno::NOENT);
        }
        let is_folder = self.status(inode)?.is_folder;
        if !is_folder && new_path.ends_with('/') {
            return Err(Errno::NOTDIR);
        }
        if self.is_within(new_parent, inode)? {
            return Err(Errno::INVAL);
        }
        if let Some(replaced) = self.entries(new_parent)?.get(new_name).copied() {
            if replaced == inode {
                return Ok(());
            }
            match (is_folder, self.entries(replaced)) {
                (true, Err(error)) => return Err(error),
                (true, Ok(entries)) if !entries.is_empty() => return Err(Errno::NOTEMPTY),
                (false, Ok(_)) => return Err(Errno::ISDIR),
                _ => self.unlink(new_parent, new_name)?,
            }
        }
        self.entries_mut(parent)?.remove(name);
        self.entries_mut(new_parent)?
            .insert(new_name.to_owned(), inode);
        self.node_mut(inode)?.parent = new_parent;
        Ok(())
    }

    /// Returns whether `inode` is `folder` or below it.
    fn is_within(&self, inode: Inode, folder: Inode) -> Result<bool> {
        let mut at = inode;
        while at != folder && at != ROOT {
            at = self.node(at)?.parent;
        }
        Ok(at == folder)
    }

    pub(crate) fn status(&self, inode: Inode) -> Result<Status> {
        let node = self.node(inode)?;
        let (is_folder, size) = match &node.content {
            Content::File { size, .. } => (false, *size),
            Content::Folder(_) => (true, 0),
        };
        Ok(Status {
            inode,
            is_folder,
            size,
            modified_at: node.modified_at,
        })
    }

    pub(crate) fn set_modified(&mut self, inode: Inode, at: SystemTime) -> Result<()> {
        self.node_mut(inode)?.modified_at = at;
        Ok(())
    }

    /// Returns the first name of a folder behind `last`, and the status of what has it.
    pub(crate) fn next_entry(
        &self,
        inode: Inode,
        last: Option<&str>,
    ) -> Result<Option<(String, Status)>> {
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        let mut behind = self
            .entries(inode)?
            .range::<str, _>((from, Bound::Unbounded));
        let Some((name, inode)) = behind.next() else {
            return Ok(None);
        };
        Ok(Some((name.clone(), self.status(*inode)?)))
    }

    fn file(&self, inode: Inode) -> Result<(u64, &[u32])> {
        match &self.node(inode)?.content {
            Content::File { size, blocks } => Ok((*size, blocks)),
            Content::Folder(_) => Err(Errno::ISDIR),
        }
    }

    fn file_mut(&mut self, inode: Inode) -> Result<(&mut u64, &mut Vec<u32>, &mut Blocks)> {
        let node = self.nodes.get_mut(&inode).ok_or(Errno::BADF)?;
        node.modified_at = wall_time();
        match &mut node.content {
            Content::File { size, blocks } => Ok((size, blocks, &mut self.blocks)),
            Content::Folder(_) => Err(Errno::ISDIR),
        }
    }

    /// Gives a file the blocks for `end` bytes, all or none. It has this size only after [`Tree::grow`].
    pub(crate) fn reserve(&mut self, inode: Inode, end: u64) -> Result<()> {
        let (_, blocks, all) = self.file_mut(inode)?;
        let needed = end
            .div_ceil(BLOCK_BYTES)
            .saturating_sub(blocks.len() as u64);
        if needed > all.left() {
            return Err(Errno::NOSPC);
        }
        for _ in 0..needed {
            blocks.push(all.take().ok_or(Errno::NOSPC)?);
        }
        Ok(())
    }

    /// Makes a file at least as large as what was written.
    pub(crate) fn grow(&mut self, inode: Inode, end: u64) -> Result<()> {
        let (size, blocks, _) = self.file_mut(inode)?;
        // It may have been truncated while it was written.
        *size = (*size).max(end.min(blocks.len() as u64 * BLOCK_BYTES));
        Ok(())
    }

    /// Makes a file at most this large, and gives back what it has reserved beyond.
    pub(crate) fn truncate(&mut self, inode: Inode, end: u64) -> Result<()> {
        let (size, blocks, all) = self.file_mut(inode)?;
        *size = (*size).min(end);
        let kept = usize::try_from(size.div_ceil(BLOCK_BYTES)).unwrap_or(usize::MAX);
        if kept < blocks.len() {
            all.free.extend(blocks.drain(kept..));
        }
        Ok(())
    }

    /// Returns where `len` bytes from `offset` are. Neighbouring blocks are one segment.
    pub(crate) fn segments(&self, inode: Inode, offset: u64, len: usize) -> Result<Vec<Segment>> {
        let (_, blocks) = self.file(inode)?;
        let mut segments: Vec<Segment> = Vec::new();
        let (mut offset, mut left) = (offset, len as u64);
        while left > 0 {
            let place = usize::try_from(offset / BLOCK_BYTES).map_err(|_| Errno::NOSPC)?;
            let block = *blocks.get(place).ok_or(Errno::NOSPC)?;
            let within = offset % BLOCK_BYTES;
            let bytes = left.min(BLOCK_BYTES - within);
            let position = u64::from(block) * BLOCK_BYTES + within;
            let len = usize::try_from(bytes).map_err(|_| Errno::NOSPC)?;
            match segments.last_mut() {
                Some(last) if last.position + last.len as u64 == position => last.len += len,
                _ => segments.push(Segment { position, len }),
            }
            offset += bytes;
            left -= bytes;
        }
        Ok(segments)
    }
}
