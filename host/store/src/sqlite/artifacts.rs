//! The content of artifacts, for a copy to a database: a host on `SQLite` has it in files.

use std::path::Path;

use host_core::artifact::{ROW_BYTES_MAX, UPLOAD};
use host_engine::StoreError;
use rusqlite::{Connection, Row};
use uuid::Uuid;

use super::doing;
use crate::parts::{See, Value};

/// Each artifact, in the order of a database, with its content if it came from one.
const READ: &str = "SELECT job, name, bytes, file, content FROM artifacts \
                    LEFT JOIN artifact_contents USING (job, name) ORDER BY job, name";

struct Original {
    job: Uuid,
    name: String,
    bytes: u64,
    file: Uuid,
    content: Option<Vec<u8>>,
}

impl Original {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            job: Uuid::from_bytes(row.get(0)?),
            name: row.get(1)?,
            bytes: row.get(2)?,
            file: Uuid::from_bytes(row.get(3)?),
            content: row.get(4)?,
        })
    }

    fn content(&self, folder: &Path) -> Result<Vec<u8>, StoreError> {
        if let Some(content) = &self.content {
            return Ok(content.clone());
        }
        let Self {
            job, name, bytes, ..
        } = self;
        let refuse = |cause: String| StoreError::Broken {
            operation: "copy an artifact",
            message: if name == UPLOAD {
                format!(
                    "the upload {job}: {cause}; purge the jobs that read it, and wait until the host has removed it"
                )
            } else {
                format!(
                    "{name} of the job {job}: {cause}; save what you need of it with `host job artifact`, and purge the job"
                )
            },
        };
        if *bytes > ROW_BYTES_MAX {
            let most = ROW_BYTES_MAX >> 20;
            return Err(refuse(format!(
                "it has {bytes} bytes, and a database keeps at most {most} MiB of each artifact"
            )));
        }
        let path = folder.join(self.file.to_string());
        let content =
            std::fs::read(&path).map_err(|error| refuse(format!("{}: {error}", path.display())))?;
        if content.len() as u64 != *bytes {
            let path = path.display();
            return Err(refuse(format!(
                "{path} has {} bytes instead of {bytes}",
                content.len()
            )));
        }
        Ok(content)
    }
}

/// Visits the content of each artifact.
pub(super) fn each_content(
    connection: &Connection,
    folder: &Path,
    see: See<'_>,
) -> Result<(), StoreError> {
    let failed = doing("read the artifacts of jobs");
    let mut statement = connection.prepare(READ).map_err(&failed)?;
    let originals = statement.query_map([], Original::read).map_err(&failed)?;
    for original in originals {
        let original = original.map_err(&failed)?;
        let content = original.content(folder)?;
        see(vec![
            Value::Bytes(original.job.into_bytes().to_vec()),
            Value::Text(original.name),
            Value::Bytes(content),
        ])?;
    }
    Ok(())
}
