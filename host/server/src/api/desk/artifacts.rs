//! The artifacts that a handler writes, which are kept with the end of its attempt, and the files that it reads.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Cursor, Read as _};

use host_core::artifact::{
    ARTIFACTS_MAX, Artifact, CHUNK_BYTES_MAX, INPUT_FILES_MAX, NewArtifact, UNKNOWN_TYPE,
    flaw_of_name, flaw_of_type,
};
use host_core::desk::{DeskError, DeskErrorKind, DeskPass};
use host_core::id::JobId;

use super::{Shared, too_much};
use crate::artifacts::{Full, Staged};

/// How much of a name is shown, in characters.
const SHOWN_MAX: usize = 128;

/// The most files that a run opens to read, one after the other.
const READS_MAX: u32 = 10_000;

/// The artifacts that a run has begun, and the files that it reads, by their numbers.
#[derive(Debug, Default)]
pub(super) struct OpenArtifacts {
    open: BTreeMap<u32, OpenArtifact>,
    reading: BTreeMap<u32, Reading>,
    /// How many were begun or opened: the next number.
    numbers: u32,
    begun: u32,
    opened: u32,
    bytes: u64,
}

/// A file that is read, from where it was read last.
#[derive(Debug)]
enum Reading {
    File(File),
    Row(Cursor<Vec<u8>>),
}

#[derive(Debug)]
struct OpenArtifact {
    name: String,
    content_type: String,
    staged: Staged,
}

fn invalid(message: &str) -> DeskError {
    DeskError::new(DeskErrorKind::InvalidRequest, message)
}

fn full(error: &Full) -> DeskError {
    let kind = match error {
        Full::Disk(_) => DeskErrorKind::Unavailable,
        Full::Host(_) | Full::Row => DeskErrorKind::LimitReached,
    };
    DeskError::new(kind, error.to_string())
}

fn unreadable(error: &io::Error) -> DeskError {
    let message = format!("cannot read the file: {error}");
    DeskError::new(DeskErrorKind::Unavailable, message)
}

fn check_grant(pass: &DeskPass) -> Result<(), DeskError> {
    if pass.artifact_bytes > 0 {
        return Ok(());
    }
    let handler = &pass.handler;
    let message = format!(
        "the manifest gives {handler} no artifacts; add artifact_mib = 64 to [handlers.{handler}]"
    );
    Err(DeskError::new(DeskErrorKind::NotGranted, message))
}

/// Does work that blocks.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, DeskError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| DeskError::new(DeskErrorKind::Unavailable, error.to_string()))
}

impl OpenArtifacts {
    /// Begins an artifact and returns its number.
    pub(super) async fn create(
        &mut self,
        shared: &Shared,
        pass: &DeskPass,
        name: String,
        content_type: Option<String>,
    ) -> Result<u32, DeskError> {
        check_grant(pass)?;
        let content_type = content_type.unwrap_or_else(|| UNKNOWN_TYPE.to_owned());
        if let Some(flaw) = flaw_of_name(&name).or_else(|| flaw_of_type(&content_type)) {
            return Err(invalid(flaw));
        }
        if self.begun as usize >= ARTIFACTS_MAX {
            let message = format!("an attempt may begin at most {ARTIFACTS_MAX} artifacts");
            return Err(DeskError::new(DeskErrorKind::LimitReached, message));
        }
        let artifacts = shared.api.artifacts.clone();
        let begun = blocking(move || artifacts.begin()).await?;
        let artifact = OpenArtifact {
            name,
            content_type,
            staged: begun.map_err(|error| full(&error.into()))?,
        };
        self.begun += 1;
        let number = self.next_number();
        self.open.insert(number, artifact);
        Ok(number)
    }

    fn take(&mut self, number: u32) -> Result<OpenArtifact, DeskError> {
        let artifact = self.open.remove(&number);
        artifact.ok_or_else(|| invalid("the artifact is closed"))
    }

    /// Appends to an artifact. If that fails, it is gone.
    pub(super) async fn write(
        &mut self,
        pass: &DeskPass,
        number: u32,
        content: Vec<u8>,
    ) -> Result<(), DeskError> {
        let mut artifact = self.take(number)?;
        self.bytes += content.len() as u64;
        if self.bytes > pass.artifact_bytes {
            let handler = &pass.handler;
            let message = format!(
                "the artifacts of an attempt of {handler} may have at most {} MiB together; raise artifact_mib in \
                 [handlers.{handler}]",
                pass.artifact_bytes >> 20
            );
            return Err(DeskError::new(DeskErrorKind::LimitReached, message));
        }
        if artifact.staged.is_row() {
            pass.writes.reserve(content.len()).map_err(too_much)?;
        }
        let written = blocking(move || {
            let written = artifact.staged.append(&content);
            (artifact, written)
        });
        let (artifact, written) = written.await?;
        written.map_err(|error| full(&error))?;
        self.open.insert(number, artifact);
        Ok(())
    }

    fn next_number(&mut self) -> u32 {
        self.numbers += 1;
        self.numbers - 1
    }

    /// Opens a file that the job was given, and returns its number.
    pub(super) async fn open(
        &mut self,
        shared: &Shared,
        pass: &DeskPass,
        name: String,
    ) -> Result<u32, DeskError> {
        check_grant(pass)?;
        if self.reading.len() >= INPUT_FILES_MAX || self.opened >= READS_MAX {
            let message = format!(
                "an attempt may have at most {INPUT_FILES_MAX} files open to read, and open at most {READS_MAX} in all"
            );
            return Err(DeskError::new(DeskErrorKind::LimitReached, message));
        }
        let job = pass.job;
        let shown: String = name.chars().take(SHOWN_MAX).collect();
        let reading = shared.api.dispatch.read(move |reader| {
            let Some(file) = reader.input_file(job, &name)? else {
                return Ok(None);
            };
            let (id, artifact) = file.source.place();
            let content = reader.artifact_content(JobId(id), artifact)?;
            Ok(Some((reader.artifact(JobId(id), artifact)?, content)))
        });
        let found = reading
            .await
            .map_err(|error| DeskError::new(DeskErrorKind::Unavailable, error.to_string()))?;
        let Some((artifact, content)) = found else {
            return Err(invalid(&format!(
                "the job was enqueued without a file {shown:?}; `files` of a new job names them"
            )));
        };
        let Some(artifact) = artifact else {
            let cause = "the job that had it did not keep it, or was purged";
            return Err(invalid(&format!(
                "the file {shown:?} is not there: {cause}"
            )));
        };
        let reading = if let Some(content) = content {
            Reading::Row(Cursor::new(content))
        } else {
            let artifacts = shared.api.artifacts.clone();
            let opened = blocking(move || artifacts.read(artifact.file)).await?;
            Reading::File(opened.map_err(|error| unreadable(&error))?)
        };
        self.opened += 1;
        let number = self.next_number();
        self.reading.insert(number, reading);
        Ok(number)
    }

    /// Returns what follows in a file: nothing at its end.
    pub(super) async fn read(
        &mut self,
        number: u32,
        bytes_max: usize,
    ) -> Result<Vec<u8>, DeskError> {
        let found = self.reading.remove(&number);
        let mut reading = found.ok_or_else(|| invalid("the file is not open to read"))?;
        let read = blocking(move || {
            let mut content = vec![0; bytes_max.min(CHUNK_BYTES_MAX)];
            let length = match &mut reading {
                Reading::File(file) => file.read(&mut content),
                Reading::Row(row) => row.read(&mut content),
            };
            content.truncate(*length.as_ref().unwrap_or(&0));
            (reading, length.map(|_| content))
        });
        let (reading, content) = read.await?;
        self.reading.insert(number, reading);
        content.map_err(|error| unreadable(&error))
    }

    /// Keeps an artifact with the attempt's end, or ends reading a file.
    pub(super) async fn close(&mut self, pass: &DeskPass, number: u32) -> Result<(), DeskError> {
        if self.reading.remove(&number).is_some() {
            return Ok(());
        }
        let OpenArtifact {
            name,
            content_type,
            staged,
        } = self.take(number)?;
        let finished = blocking(move || staged.finish()).await?;
        let content = finished.map_err(|error| full(&error.into()))?;
        let artifact = Artifact {
            name,
            content_type,
            bytes: content.bytes,
            sha256: content.sha256,
            file: content.file,
        };
        let new = NewArtifact {
            artifact,
            content: content.row,
        };
        let added = pass.writes.add_artifact(new, content.hold);
        added.map_err(too_much)
    }
}
