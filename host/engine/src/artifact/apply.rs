//! Keeps artifacts and uploads, and what jobs read of them.

use std::collections::BTreeMap;

use host_core::artifact::{FileSource, InputFile, NewArtifact, UPLOAD};
use host_core::id::JobId;
use host_core::job::NewJob;

use super::{
    ArtifactContent, ArtifactKey, ArtifactOfJob, ArtifactRefusal, InputFileOfJob, KeepUpload,
    RemoveUploads, Upload, UploadUsage,
};
use crate::{Batch, Rows, Stop, StoreError};

impl<R: Rows> Batch<'_, R> {
    pub(super) fn keep_upload(&mut self, keep: &KeepUpload) -> Result<(), Stop> {
        let upload = &keep.upload;
        let mut usage = self.usage(&upload.owner)?;
        let bytes = usage.bytes + upload.bytes;
        if bytes > keep.quota_bytes {
            let quota_bytes = keep.quota_bytes;
            return Err(ArtifactRefusal::Full { bytes, quota_bytes }.into());
        }
        usage.bytes = bytes;
        usage.uploads += 1;
        self.rows.put(&usage)?;
        self.rows.put(upload)?;
        self.keep_artifact(JobId(upload.id), (*keep.artifact).clone())?;
        Ok(())
    }

    pub(super) fn remove_uploads(
        &mut self,
        RemoveUploads(ids): &RemoveUploads,
    ) -> Result<(), Stop> {
        for id in ids {
            let Some(upload) = self.rows.get::<Upload>(*id)? else {
                continue;
            };
            let mut usage = self.usage(&upload.owner)?;
            usage.bytes = usage.bytes.saturating_sub(upload.bytes);
            usage.uploads = usage.uploads.saturating_sub(1);
            if usage.uploads == 0 {
                self.rows.remove::<UploadUsage>(&upload.owner)?;
            } else {
                self.rows.put(&usage)?;
            }
            let job = JobId(*id);
            let key = || ArtifactKey { job, name: UPLOAD };
            self.rows.remove::<ArtifactOfJob>(key())?;
            self.rows.remove::<ArtifactContent>(key())?;
            self.rows.remove::<Upload>(*id)?;
        }
        Ok(())
    }

    fn usage(&mut self, owner: &str) -> Result<UploadUsage, StoreError> {
        let found = self.rows.get::<UploadUsage>(owner)?;
        Ok(found.unwrap_or_else(|| UploadUsage {
            owner: owner.to_owned(),
            uploads: 0,
            bytes: 0,
        }))
    }

    /// Refuses files that new jobs may not read: uploads of other principals, and artifacts that the caller may not see.
    pub(crate) fn check_files<'n>(
        &mut self,
        jobs: impl Iterator<Item = &'n NewJob>,
        stands_for: &BTreeMap<JobId, JobId>,
    ) -> Result<(), Stop> {
        for new in jobs {
            let origin = new.payload.origin.as_ref();
            let owner = origin.map_or("", |origin| &origin.principal);
            let reads_others = new.conditions.as_ref().is_some_and(|it| it.reads_others);
            for InputFile { source, .. } in &new.files {
                match source {
                    FileSource::Upload(id) => {
                        let upload = self.rows.get::<Upload>(*id)?;
                        let is_usable =
                            |it: &Upload| it.owner == owner && self.now < it.expires_at();
                        if !upload.as_ref().is_some_and(is_usable) {
                            return Err(ArtifactRefusal::UnknownUpload(*id).into());
                        }
                    }
                    FileSource::Artifact(named, _) => {
                        let id = *stands_for.get(named).unwrap_or(named);
                        if !reads_others && stands_for.get(&id) != Some(&id) {
                            return Err(ArtifactRefusal::Hidden(id).into());
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Keeps which files a new job reads.
    pub(crate) fn keep_files(&mut self, new: &NewJob) -> Result<(), StoreError> {
        for file in &new.files {
            let (job, file) = (new.id, file.clone());
            self.rows.put(&InputFileOfJob { job, file })?;
        }
        Ok(())
    }

    /// Keeps an artifact of a job or of an upload.
    pub(crate) fn keep_artifact(&mut self, job: JobId, new: NewArtifact) -> Result<(), StoreError> {
        let NewArtifact { artifact, content } = new;
        if let Some(content) = content {
            let name = artifact.name.clone();
            self.rows.put(&ArtifactContent { job, name, content })?;
        }
        self.rows.put(&ArtifactOfJob { job, artifact })
    }
}

/// Names the jobs of files that count as those named.
pub(crate) fn renamed(files: &[InputFile], stands_for: impl Fn(JobId) -> JobId) -> Vec<InputFile> {
    let rename = |file: &InputFile| InputFile {
        name: file.name.clone(),
        source: match &file.source {
            FileSource::Upload(id) => FileSource::Upload(*id),
            FileSource::Artifact(job, name) => FileSource::Artifact(stands_for(*job), name.clone()),
        },
    };
    files.iter().map(rename).collect()
}
