//! The artifacts of jobs, the files that jobs read, and uploads.

use host_core::artifact::{Artifact, FileSource, InputFile};
use host_core::id::JobId;

use uuid::Uuid;

use super::{ArtifactContent, ArtifactKey, ArtifactOfJob, InputFileOfJob, Upload, UploadUsage};
use crate::StoreError;
use crate::table::{Fields, Record, Row, Table, row, table};

/// `file` names the file that has the content, unless [`ARTIFACT_CONTENTS`] has it.
pub static ARTIFACTS: Table = table!(
    "artifacts", "artifact of job", "artifacts", 2,
    [job: Id, name: Text, content_type: Text, bytes: Int, sha256: Bytes, file: Id]
);

impl Record for ArtifactOfJob {
    const TABLE: &'static Table = &ARTIFACTS;
    type Key<'k> = ArtifactKey<'k>;

    fn key(key: ArtifactKey<'_>) -> Row {
        row![key.job.0, key.name]
    }

    fn to_row(&self) -> Result<Row, StoreError> {
        let it = &self.artifact;
        Ok(row![
            self.job.0,
            it.name.as_str(),
            it.content_type.as_str(),
            it.bytes,
            &it.sha256,
            it.file
        ])
    }

    fn from_row(row: Row) -> Result<Self, StoreError> {
        let mut fields = Fields::new(&ARTIFACTS, row);
        let job = JobId(fields.id()?);
        Ok(Self {
            job,
            artifact: Artifact {
                name: fields.text()?,
                content_type: fields.text()?,
                bytes: fields.number()?,
                sha256: fields.hash()?,
                file: fields.id()?,
            },
        })
    }
}

/// What a store keeps where nodes share it.
pub static ARTIFACT_CONTENTS: Table = table!(
    "artifact_contents", "content of artifact", "contents of artifacts", 2,
    [job: Id, name: Text, content: Bytes]
);

impl Record for ArtifactContent {
    const TABLE: &'static Table = &ARTIFACT_CONTENTS;
    type Key<'k> = ArtifactKey<'k>;

    fn key(key: ArtifactKey<'_>) -> Row {
        row![key.job.0, key.name]
    }

    fn to_row(&self) -> Result<Row, StoreError> {
        Ok(row![self.job.0, self.name.as_str(), &self.content[..]])
    }

    fn from_row(row: Row) -> Result<Self, StoreError> {
        let mut fields = Fields::new(&ARTIFACT_CONTENTS, row);
        Ok(Self {
            job: JobId(fields.id()?),
            name: fields.text()?,
            content: fields.bytes()?,
        })
    }
}

/// `source` is an upload, with an empty `artifact`, or a job.
pub static INPUT_FILES: Table = table!(
    "input_files", "file for job", "files for jobs", 2,
    [job: Id, name: Text, source: Id, artifact: Text]
);

impl Record for InputFileOfJob {
    const TABLE: &'static Table = &INPUT_FILES;
    type Key<'k> = ArtifactKey<'k>;

    fn key(key: ArtifactKey<'_>) -> Row {
        row![key.job.0, key.name]
    }

    fn to_row(&self) -> Result<Row, StoreError> {
        let (id, artifact) = self.file.source.place();
        Ok(row![self.job.0, self.file.name.as_str(), id, artifact])
    }

    fn from_row(row: Row) -> Result<Self, StoreError> {
        let mut fields = Fields::new(&INPUT_FILES, row);
        Ok(Self {
            job: JobId(fields.id()?),
            file: InputFile {
                name: fields.text()?,
                source: FileSource::at(fields.id()?, fields.text()?),
            },
        })
    }
}

/// Each has a row of [`ARTIFACTS`] with its id and an empty name.
pub static UPLOADS: Table = table!(
    "uploads", "upload", "uploads", 1,
    [id: Id, owner: Text, at: Int, bytes: Int]
);

impl Record for Upload {
    const TABLE: &'static Table = &UPLOADS;
    type Key<'k> = Uuid;

    fn key(id: Uuid) -> Row {
        row![id]
    }

    fn to_row(&self) -> Result<Row, StoreError> {
        Ok(row![self.id, self.owner.as_str(), self.at, self.bytes])
    }

    fn from_row(row: Row) -> Result<Self, StoreError> {
        let mut fields = Fields::new(&UPLOADS, row);
        Ok(Self {
            id: fields.id()?,
            owner: fields.text()?,
            at: fields.time()?,
            bytes: fields.number()?,
        })
    }
}

/// How much each principal has uploaded.
pub static UPLOAD_USAGE: Table = table!(
    "upload_usage", "size of uploads of", "sizes of uploads", 1,
    [owner: Text, uploads: Int, bytes: Int]
);

impl Record for UploadUsage {
    const TABLE: &'static Table = &UPLOAD_USAGE;
    type Key<'k> = &'k str;

    fn key(owner: &str) -> Row {
        row![owner]
    }

    fn to_row(&self) -> Result<Row, StoreError> {
        Ok(row![self.owner.as_str(), self.uploads, self.bytes])
    }

    fn from_row(row: Row) -> Result<Self, StoreError> {
        let mut fields = Fields::new(&UPLOAD_USAGE, row);
        Ok(Self {
            owner: fields.text()?,
            uploads: fields.number()?,
            bytes: fields.number()?,
        })
    }
}
