//! Artifacts: files that jobs produce. A row for each is committed with the end of the attempt that made it, and removed with
//! the job.

pub mod tables;

use std::collections::BTreeSet;

use host_core::artifact::Artifact;
use host_core::id::JobId;
use uuid::Uuid;

use crate::table::{Range, Value};
use crate::{Reader, StoreError};

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

    /// Returns the files of all artifacts.
    pub fn artifact_files(&self) -> Result<BTreeSet<Uuid>, StoreError> {
        let mut files = BTreeSet::new();
        let mut after = None;
        loop {
            let mut range = Range::all().first(PAGE);
            if let Some(JobId(job)) = after {
                range = range.after(job);
            }
            let page = self.list::<ArtifactOfJob>(range)?;
            let is_last = page.len() < PAGE as usize;
            // The rest of the last job is on the next page.
            let last = page.last().map(|it| it.job).filter(|_| !is_last);
            for it in page.into_iter().filter(|it| Some(it.job) != last) {
                after = Some(it.job);
                files.insert(it.artifact.file);
            }
            if is_last {
                return Ok(files);
            }
        }
    }
}
