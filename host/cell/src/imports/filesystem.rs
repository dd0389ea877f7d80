//! `wasi:filesystem`: the scratch directory, and granted directories, which `wasmtime-wasi` reads.

use std::time::{Duration, SystemTime};

use wasmtime::Result;
use wasmtime::component::Resource;
use wasmtime_wasi::filesystem::Descriptor;
use wasmtime_wasi::p2::bindings::clocks::wall_clock::Datetime;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    self, Advice, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry,
    DirectoryEntryStream, ErrorCode, Filesize, HostDescriptor, HostDirectoryEntryStream,
    MetadataHashValue, NewTimestamp, OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, FsError, FsResult};

use crate::context::Guest;
use crate::scratch::OpenNode;
use crate::scratch::streams::{Reader, Writer};
use crate::scratch::tree::{Status, wall_time};

/// A descriptor of a file or folder in the scratch directory.
#[derive(Clone)]
struct ScratchDescriptor {
    node: OpenNode,
    flags: DescriptorFlags,
}

impl ScratchDescriptor {
    /// Returns the file if the descriptor may write it.
    fn writable(self) -> FsResult<OpenNode> {
        if self.flags.contains(DescriptorFlags::WRITE) {
            Ok(self.node)
        } else {
            Err(ErrorCode::BadDescriptor.into())
        }
    }
}

/// The entries of a folder in the scratch directory. Each is looked up when it is read.
struct ScratchEntries {
    folder: OpenNode,
    last: Option<String>,
}

impl Guest {
    /// Returns a descriptor if it is one of the scratch directory.
    fn scratch(&mut self, descriptor: &Resource<Descriptor>) -> Option<ScratchDescriptor> {
        let (_, table) = self.scratch_parts();
        let number = Resource::<ScratchDescriptor>::new_borrow(descriptor.rep());
        table.get(&number).ok().cloned()
    }

    fn push_scratch(
        &mut self,
        node: OpenNode,
        flags: DescriptorFlags,
    ) -> Result<Resource<Descriptor>> {
        let (_, table) = self.scratch_parts();
        let number = table.push(ScratchDescriptor { node, flags })?;
        Ok(Resource::new_own(number.rep()))
    }

    /// Opens the scratch directory, if there is one.
    pub(crate) fn open_scratch(&mut self) -> Result<Option<Resource<Descriptor>>> {
        let flags = DescriptorFlags::READ | DescriptorFlags::MUTATE_DIRECTORY;
        let root = self.scratch_parts().0.cloned();
        root.map(|root| self.push_scratch(root, flags)).transpose()
    }

    fn push_reader(&mut self, reader: Reader) -> FsResult<Resource<DynInputStream>> {
        let reader: DynInputStream = Box::new(reader);
        Ok(self.scratch_parts().1.push(reader)?)
    }

    fn push_writer(&mut self, writer: Writer) -> FsResult<Resource<DynOutputStream>> {
        let writer: DynOutputStream = Box::new(writer);
        Ok(self.scratch_parts().1.push(writer)?)
    }
}

const fn kind(status: &Status) -> DescriptorType {
    if status.is_folder {
        DescriptorType::Directory
    } else {
        DescriptorType::RegularFile
    }
}

fn stat(status: &Status) -> DescriptorStat {
    let since = status.modified_at.duration_since(SystemTime::UNIX_EPOCH);
    let time = since.ok().map(|since| Datetime {
        seconds: since.as_secs(),
        nanoseconds: since.subsec_nanos(),
    });
    DescriptorStat {
        type_: kind(status),
        link_count: 1,
        size: status.size,
        data_access_timestamp: time,
        data_modification_timestamp: time,
        status_change_timestamp: time,
    }
}

const fn hash(status: &Status) -> MetadataHashValue {
    MetadataHashValue {
        lower: status.inode,
        upper: 0,
    }
}

/// Sets the time of the last change. That of the last access is not kept.
fn set_modified(node: &OpenNode, path: Option<&str>, time: NewTimestamp) -> FsResult<()> {
    let at = match time {
        NewTimestamp::NoChange => return Ok(()),
        NewTimestamp::Now => wall_time(),
        NewTimestamp::Timestamp(at) => SystemTime::UNIX_EPOCH
            .checked_add(Duration::from_secs(at.seconds))
            .and_then(|time| time.checked_add(Duration::from_nanos(at.nanoseconds.into())))
            .ok_or(ErrorCode::Overflow)?,
    };
    Ok(node.set_modified(path, at)?)
}

impl types::Host for Guest {
    fn convert_error_code(&mut self, error: FsError) -> Result<ErrorCode> {
        self.dir_parts().convert_error_code(error)
    }

    fn filesystem_error_code(
        &mut self,
        error: Resource<wasmtime::Error>,
    ) -> Result<Option<ErrorCode>> {
        self.dir_parts().filesystem_error_code(error)
    }
}

impl HostDescriptor for Guest {
    async fn advise(
        &mut self,
        this: Resource<Descriptor>,
        offset: Filesize,
        len: Filesize,
        advice: Advice,
    ) -> FsResult<()> {
        match self.scratch(&this) {
            Some(_) => Ok(()),
            None => self.dir_parts().advise(this, offset, len, advice).await,
        }
    }

    /// What is in the scratch directory ends with the attempt, so it need not be on disk.
    async fn sync_data(&mut self, this: Resource<Descriptor>) -> FsResult<()> {
        match self.scratch(&this) {
            Some(_) => Ok(()),
            None => self.dir_parts().sync_data(this).await,
        }
    }

    async fn sync(&mut self, this: Resource<Descriptor>) -> FsResult<()> {
        match self.scratch(&this) {
            Some(_) => Ok(()),
            None => self.dir_parts().sync(this).await,
        }
    }

    async fn get_flags(&mut self, this: Resource<Descriptor>) -> FsResult<DescriptorFlags> {
        match self.scratch(&this) {
            Some(own) => Ok(own.flags),
            None => self.dir_parts().get_flags(this).await,
        }
    }

    async fn get_type(&mut self, this: Resource<Descriptor>) -> FsResult<DescriptorType> {
        match self.scratch(&this) {
            Some(own) => Ok(kind(&own.node.status()?)),
            None => self.dir_parts().get_type(this).await,
        }
    }

    async fn set_size(&mut self, this: Resource<Descriptor>, size: Filesize) -> FsResult<()> {
        match self.scratch(&this) {
            Some(own) => Ok(own.writable()?.set_size(size).await?),
            None => self.dir_parts().set_size(this, size).await,
        }
    }

    async fn set_times(
        &mut self,
        this: Resource<Descriptor>,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> FsResult<()> {
        match self.scratch(&this) {
            Some(own) => set_modified(&own.node, None, modified),
            None => self.dir_parts().set_times(this, accessed, modified).await,
        }
    }

    async fn read(
        &mut self,
        this: Resource<Descriptor>,
        len: Filesize,
        offset: Filesize,
    ) -> FsResult<(Vec<u8>, bool)> {
        let Some(own) = self.scratch(&this) else {
            return self.dir_parts().read(this, len, offset).await;
        };
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let content = own.node.read(offset, len).await?;
        Ok((content.to_vec(), content.is_empty()))
    }

    async fn write(
        &mut self,
        this: Resource<Descriptor>,
        content: Vec<u8>,
        offset: Filesize,
    ) -> FsResult<Filesize> {
        let Some(own) = self.scratch(&this) else {
            return self.dir_parts().write(this, content, offset).await;
        };
        let len = content.len() as u64;
        own.writable()?.write(offset, content.into()).await?;
        Ok(len)
    }

    async fn read_directory(
        &mut self,
        this: Resource<Descriptor>,
    ) -> FsResult<Resource<DirectoryEntryStream>> {
        let Some(own) = self.scratch(&this) else {
            return self.dir_parts().read_directory(this).await;
        };
        if !own.node.status()?.is_folder {
            return Err(ErrorCode::NotDirectory.into());
        }
        let entries = ScratchEntries {
            folder: own.node,
            last: None,
        };
        let number = self.scratch_parts().1.push(entries)?;
        Ok(Resource::new_own(number.rep()))
    }

    async fn create_directory_at(
        &mut self,
        this: Resource<Descriptor>,
        path: String,
    ) -> FsResult<()> {
        match self.scratch(&this) {
            Some(own) => Ok(own.node.make_folder(&path)?),
            None => self.dir_parts().create_directory_at(this, path).await,
        }
    }

    async fn stat(&mut self, this: Resource<Descriptor>) -> FsResult<DescriptorStat> {
        match self.scratch(&this) {
            Some(own) => Ok(stat(&own.node.status()?)),
            None => self.dir_parts().stat(this).await,
        }
    }

    async fn stat_at(
        &mut self,
        this: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
    ) -> FsResult<DescriptorStat> {
        match self.scratch(&this) {
            Some(own) => Ok(stat(&own.node.status_at(&path)?)),
            None => self.dir_parts().stat_at(this, flags, path).await,
        }
    }

    async fn set_times_at(
        &mut self,
        this: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> FsResult<()> {
        if let Some(own) = self.scratch(&this) {
            return set_modified(&own.node, Some(&path), modified);
        }
        let mut dirs = self.dir_parts();
        dirs.set_times_at(this, flags, path, accessed, modified)
            .await
    }

    async fn link_at(
        &mut self,
        this: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
        to: Resource<Descriptor>,
        new_path: String,
    ) -> FsResult<()> {
        if self.scratch(&this).is_some() || self.scratch(&to).is_some() {
            return Err(ErrorCode::Unsupported.into());
        }
        let mut dirs = self.dir_parts();
        dirs.link_at(this, flags, path, to, new_path).await
    }

    async fn open_at(
        &mut self,
        this: Resource<Descriptor>,
        path_flags: PathFlags,
        path: String,
        how: OpenFlags,
        flags: DescriptorFlags,
    ) -> FsResult<Resource<Descriptor>> {
        let Some(own) = self.scratch(&this) else {
            let mut dirs = self.dir_parts();
            return dirs.open_at(this, path_flags, path, how, flags).await;
        };
        let writes = flags.contains(DescriptorFlags::WRITE);
        let node = own.node.open(&path, how, writes)?;
        self.push_scratch(node, flags).map_err(FsError::trap)
    }

    fn drop(&mut self, this: Resource<Descriptor>) -> Result<()> {
        if self.scratch(&this).is_none() {
            return HostDescriptor::drop(&mut self.dir_parts(), this);
        }
        let number = Resource::<ScratchDescriptor>::new_own(this.rep());
        self.scratch_parts().1.delete(number)?;
        Ok(())
    }

    async fn readlink_at(&mut self, this: Resource<Descriptor>, path: String) -> FsResult<String> {
        let Some(own) = self.scratch(&this) else {
            return self.dir_parts().readlink_at(this, path).await;
        };
        own.node.status_at(&path)?;
        Err(ErrorCode::Invalid.into())
    }

    async fn remove_directory_at(
        &mut self,
        this: Resource<Descriptor>,
        path: String,
    ) -> FsResult<()> {
        match self.scratch(&this) {
            Some(own) => Ok(own.node.remove(&path, true)?),
            None => self.dir_parts().remove_directory_at(this, path).await,
        }
    }

    async fn rename_at(
        &mut self,
        this: Resource<Descriptor>,
        path: String,
        to: Resource<Descriptor>,
        new_path: String,
    ) -> FsResult<()> {
        match (self.scratch(&this), self.scratch(&to)) {
            (Some(from), Some(to)) => Ok(from.node.rename(&path, &to.node, &new_path)?),
            (None, None) => {
                let mut dirs = self.dir_parts();
                dirs.rename_at(this, path, to, new_path).await
            }
            _ => Err(ErrorCode::CrossDevice.into()),
        }
    }

    async fn symlink_at(
        &mut self,
        this: Resource<Descriptor>,
        target: String,
        path: String,
    ) -> FsResult<()> {
        match self.scratch(&this) {
            Some(_) => Err(ErrorCode::Unsupported.into()),
            None => self.dir_parts().symlink_at(this, target, path).await,
        }
    }

    async fn unlink_file_at(&mut self, this: Resource<Descriptor>, path: String) -> FsResult<()> {
        match self.scratch(&this) {
            Some(own) => Ok(own.node.remove(&path, false)?),
            None => self.dir_parts().unlink_file_at(this, path).await,
        }
    }

    fn read_via_stream(
        &mut self,
        this: Resource<Descriptor>,
        offset: Filesize,
    ) -> FsResult<Resource<DynInputStream>> {
        match self.scratch(&this) {
            Some(own) => self.push_reader(Reader::new(own.node, offset)),
            None => self.dir_parts().read_via_stream(this, offset),
        }
    }

    fn write_via_stream(
        &mut self,
        this: Resource<Descriptor>,
        offset: Filesize,
    ) -> FsResult<Resource<DynOutputStream>> {
        match self.scratch(&this) {
            Some(own) => self.push_writer(Writer::new(own.writable()?, Some(offset))),
            None => self.dir_parts().write_via_stream(this, offset),
        }
    }

    fn append_via_stream(
        &mut self,
        this: Resource<Descriptor>,
    ) -> FsResult<Resource<DynOutputStream>> {
        match self.scratch(&this) {
            Some(own) => self.push_writer(Writer::new(own.writable()?, None)),
            None => self.dir_parts().append_via_stream(this),
        }
    }

    async fn is_same_object(
        &mut self,
        one: Resource<Descriptor>,
        other: Resource<Descriptor>,
    ) -> Result<bool> {
        let inode = |own: ScratchDescriptor| own.node.status().map(|status| status.inode);
        match (self.scratch(&one), self.scratch(&other)) {
            (Some(one), Some(other)) => Ok(inode(one)? == inode(other)?),
            (None, None) => self.dir_parts().is_same_object(one, other).await,
            _ => Ok(false),
        }
    }

    async fn metadata_hash(&mut self, this: Resource<Descriptor>) -> FsResult<MetadataHashValue> {
        match self.scratch(&this) {
            Some(own) => Ok(hash(&own.node.status()?)),
            None => self.dir_parts().metadata_hash(this).await,
        }
    }

    async fn metadata_hash_at(
        &mut self,
        this: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
    ) -> FsResult<MetadataHashValue> {
        match self.scratch(&this) {
            Some(own) => Ok(hash(&own.node.status_at(&path)?)),
            None => self.dir_parts().metadata_hash_at(this, flags, path).await,
        }
    }
}

impl HostDirectoryEntryStream for Guest {
    async fn read_directory_entry(
        &mut self,
        this: Resource<DirectoryEntryStream>,
    ) -> FsResult<Option<DirectoryEntry>> {
        let number = Resource::<ScratchEntries>::new_borrow(this.rep());
        let Ok(entries) = self.scratch_parts().1.get_mut(&number) else {
            return self.dir_parts().read_directory_entry(this).await;
        };
        let found = entries.folder.next_entry(entries.last.as_deref())?;
        Ok(found.map(|(name, status)| {
            entries.last = Some(name.clone());
            let type_ = kind(&status);
            DirectoryEntry { type_, name }
        }))
    }

    fn drop(&mut self, this: Resource<DirectoryEntryStream>) -> Result<()> {
        let number = Resource::<ScratchEntries>::new_borrow(this.rep());
        if self.scratch_parts().1.get(&number).is_err() {
            return HostDirectoryEntryStream::drop(&mut self.dir_parts(), this);
        }
        let number = Resource::<ScratchEntries>::new_own(this.rep());
        self.scratch_parts().1.delete(number)?;
        Ok(())
    }
}
