//! Artifacts: files that jobs produce. A row for each is committed with the end of the attempt that made it, and removed with
//! the job. An upload is an artifact without a job, under an id and a name of its own, which jobs may read.

mod apply;
mod command;
mod refusal;
pub mod tables;

use std::collections::BTreeSet;

use host_core::artifact::{Artifact, InputFile, UPLOAD_MS};
use host_core::id::JobId;
use host_core::time::Time;
use uuid::Uuid;

use crate::table::{Range, Record, Value};
use crate::{Reader, StoreError};

pub(crate) use self::apply::renamed;
pub use self::command::*;
pub use self::refusal::*;

/// How long an upload that no job reads is kept, in milliseconds. No job may be given it in the last hour, so that one that
/// another node accepts keeps it.
pub const UNUSED_UPLOAD_MS: u64 = UPLOAD_MS + 3_600_000;

/// How many rows are read at a time: more than a job has.
const PAGE: u32 = 1_000;

/// An artifact and its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactOfJob {
    pub job: JobId,
    pub artifact: Artifact,
}

/// The content of an artifact that the store keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactContent {
    pub job: JobId,
    pub name: String,
    pub content: Vec<u8>,
}

/// A file that a job reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputFileOfJob {
    pub job: JobId,
    pub file: InputFile,
}

/// A file that a principal has sent for jobs to read. Its artifact has the same id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    pub id: Uuid,
    /// The principal; empty if the API lets in everyone.
    pub owner: String,
    pub at: Time,
    pub bytes: u64,
}

impl Upload {
    /// Returns when new jobs may no longer be given it.
    pub const fn expires_at(&self) -> Time {
        self.at.plus_ms(UPLOAD_MS)
    }
}

/// How much the uploads of a principal have together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadUsage {
    pub owner: String,
    pub uploads: u64,
    pub bytes: u64,
}

/// Names an artifact.
#[derive(Clone, Copy, Debug)]
pub struct ArtifactKey<'a> {
    pub job: JobId,
    pub name: &'a str,
}

impl dyn Reader + '_ {
    /// Returns the artifacts of a job, by their names.
    pub fn artifacts(&self, job: JobId) -> Result<Vec<Artifact>, StoreError> {
        let of_job: Vec<Value> = vec![job.0.into()];
        let found = self.list::<ArtifactOfJob>(Range::of(of_job))?;
        Ok(found.into_iter().map(|it| it.artifact).collect())
    }

    /// Returns an artifact of a job.
    pub fn artifact(&self, job: JobId, name: &str) -> Result<Option<Artifact>, StoreError> {
        let found = self.get::<ArtifactOfJob>(ArtifactKey { job, name })?;
        Ok(found.map(|it| it.artifact))
    }

    /// Returns the content of an artifact, if the store keeps it.
    pub fn artifact_content(&self, job: JobId, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let found = self.get::<ArtifactContent>(ArtifactKey { job, name })?;
        Ok(found.map(|it| it.content))
    }

    /// Returns the files that a job reads, by their names.
    pub fn input_files(&self, job: JobId) -> Result<Vec<InputFile>, StoreError> {
        let of_job: Vec<Value> = vec![job.0.into()];
        let found = self.list::<InputFileOfJob>(Range::of(of_job))?;
        Ok(found.into_iter().map(|it| it.file).collect())
    }

    /// Returns a file that a job reads.
    pub fn input_file(&self, job: JobId, name: &str) -> Result<Option<InputFile>, StoreError> {
        let found = self.get::<InputFileOfJob>(ArtifactKey { job, name })?;
        Ok(found.map(|it| it.file))
    }

    /// Returns the files of all artifacts.
    pub fn artifact_files(&self) -> Result<BTreeSet<Uuid>, StoreError> {
        let mut files = BTreeSet::new();
        self.each_of_jobs(|ArtifactOfJob { job, artifact }| {
            files.insert(artifact.file);
            job
        })?;
        Ok(files)
    }

    /// Returns the uploads that no job has read for so long that they may go.
    pub fn unused_uploads(&self, now: Time) -> Result<Vec<Uuid>, StoreError> {
        let mut read = BTreeSet::new();
        self.each_of_jobs(|InputFileOfJob { job, file }| {
            read.insert(file.source.place().0);
            job
        })?;
        let mut unused = Vec::new();
        let mut range = Range::all().first(PAGE);
        loop {
            let page = self.list::<Upload>(range)?;
            let old = page
                .iter()
                .filter(|it| now >= it.at.plus_ms(UNUSED_UPLOAD_MS));
            unused.extend(old.map(|it| it.id).filter(|id| !read.contains(id)));
            match page.last() {
                Some(last) if page.len() == PAGE as usize => {
                    range = Range::all().first(PAGE).after(last.id);
                }
                _ => return Ok(unused),
            }
        }
    }

    /// Visits all rows of jobs. `see` returns the job of one.
    fn each_of_jobs<T: Record>(&self, mut see: impl FnMut(T) -> JobId) -> Result<(), StoreError> {
        let mut after: Option<JobId> = None;
        loop {
            let mut range = Range::all().first(PAGE);
            if let Some(JobId(job)) = after {
                range = range.after(job);
            }
            let page = self.list::<T>(range)?;
            let is_last = page.len() < PAGE as usize;
            // The rest of the last job is read again, with the job before it.
            let mut jobs: Vec<JobId> = page.into_iter().map(&mut see).collect();
            if is_last {
                return Ok(());
            }
            let last = jobs.pop();
            after = jobs.into_iter().rfind(|job| Some(*job) != last);
        }
    }
}
