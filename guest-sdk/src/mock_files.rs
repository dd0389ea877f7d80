//! The files of the mock host: those that a handler writes, and those that it reads.

use std::collections::BTreeMap;

use crate::store::{StoreError, StoreErrorKind};

/// Files of the attempts of a mock host.
#[derive(Default)]
pub(crate) struct MockFiles {
    /// Of attempts that have completed.
    pub(crate) kept: BTreeMap<String, Vec<u8>>,
    /// What the job was enqueued with.
    pub(crate) given: BTreeMap<String, Vec<u8>>,
    written: Vec<WrittenFile>,
    /// What is left of each file that was opened.
    reading: BTreeMap<u32, Vec<u8>>,
    opened: u32,
}

struct WrittenFile {
    name: String,
    content: Vec<u8>,
    is_closed: bool,
}

fn invalid(message: String) -> StoreError {
    StoreError {
        kind: StoreErrorKind::InvalidRequest,
        message,
    }
}

impl MockFiles {
    /// Returns how many files the attempt has written.
    pub(crate) fn count_written(&self) -> usize {
        self.written.len()
    }

    /// Keeps the files that are closed, from this one on.
    pub(crate) fn keep(&mut self, first: usize) {
        let closed = self.written[first..].iter().filter(|it| it.is_closed);
        self.kept
            .extend(closed.map(|it| (it.name.clone(), it.content.clone())));
    }

    /// Drops the files of the attempt from this one on.
    pub(crate) fn truncate(&mut self, count: usize) {
        self.written.truncate(count);
    }

    pub(crate) fn create(&mut self, name: &str) -> u32 {
        let number = self.written.len();
        self.written.push(WrittenFile {
            name: name.to_owned(),
            content: Vec::new(),
            is_closed: false,
        });
        u32::try_from(number).unwrap_or(u32::MAX)
    }

    pub(crate) fn write(&mut self, number: u32, content: &[u8]) -> Result<(), StoreError> {
        self.find_written(number)?.content.extend(content);
        Ok(())
    }

    pub(crate) fn close(&mut self, number: u32) -> Result<(), StoreError> {
        if self.reading.remove(&number).is_none() {
            self.find_written(number)?.is_closed = true;
        }
        Ok(())
    }

    pub(crate) fn open(&mut self, name: &str) -> Result<u32, StoreError> {
        let content = self.given.get(name).cloned().ok_or_else(|| {
            invalid(format!(
                "the mock has no file {name:?}; see MockHost::with_file"
            ))
        })?;
        self.opened += 1;
        // Files that are written have numbers from 0.
        let number = u32::MAX - self.opened;
        self.reading.insert(number, content);
        Ok(number)
    }

    pub(crate) fn read(&mut self, number: u32, bytes_max: u32) -> Result<Vec<u8>, StoreError> {
        let Some(rest) = self.reading.get_mut(&number) else {
            return Err(invalid("the file is not open to read".to_owned()));
        };
        let length = rest.len().min(bytes_max as usize);
        Ok(rest.drain(..length).collect())
    }

    fn find_written(&mut self, number: u32) -> Result<&mut WrittenFile, StoreError> {
        let found = self.written.get_mut(number as usize);
        found
            .filter(|it| !it.is_closed)
            .ok_or_else(|| invalid("the artifact is closed".to_owned()))
    }
}
