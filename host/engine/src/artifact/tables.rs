//! The artifacts of jobs.

use host_core::artifact::Artifact;
use host_core::id::JobId;

use super::{ArtifactContent, ArtifactKey, ArtifactOfJob};
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
