//! Artifacts: files that a job produces, kept with it, and files that it reads.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::id::JobId;

/// The largest size of all artifacts of an attempt together, in MiB.
pub const ARTIFACT_MIB_MAX: u64 = 16 << 10;

/// The most that one call appends, in bytes.
pub const CHUNK_BYTES_MAX: usize = 1 << 20;

/// The most artifacts of an attempt.
pub const ARTIFACTS_MAX: usize = 100;

/// The largest content that a shared store has, in bytes. Elsewhere the content is in files.
pub const ROW_BYTES_MAX: u64 = 1 << 20;

/// The folder of the files, in the data directory.
pub const FOLDER: &str = "artifacts";

/// The content type of those that have no other.
pub const UNKNOWN_TYPE: &str = "application/octet-stream";

/// The most files that a job reads.
pub const INPUT_FILES_MAX: usize = 100;

/// The name of an upload among artifacts, which no artifact of a job has.
pub const UPLOAD: &str = "";

/// How long an upload may be given to new jobs, in milliseconds: a day.
pub const UPLOAD_MS: u64 = 24 * 3_600_000;

const NAME_BYTES_MAX: usize = 128;
const TYPE_BYTES_MAX: usize = 128;

/// A file that a job has produced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    pub name: String,
    pub content_type: String,
    pub bytes: u64,
    pub sha256: [u8; 32],
    /// The name of the file that has the content.
    pub file: Uuid,
}

/// A file that an attempt has produced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewArtifact {
    pub artifact: Artifact,
    /// The content, if the store keeps it.
    pub content: Option<Vec<u8>>,
}

/// A file that a job reads, under a name of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputFile {
    pub name: String,
    pub source: FileSource,
}

/// Where the file of a job comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileSource {
    Upload(Uuid),
    /// An artifact of a job that it depends on.
    Artifact(JobId, String),
}

impl FileSource {
    /// Returns the id and the name under which the artifact is kept.
    pub fn place(&self) -> (Uuid, &str) {
        match self {
            Self::Upload(id) => (*id, UPLOAD),
            Self::Artifact(job, name) => (job.0, name),
        }
    }

    /// Returns what is kept under an id and a name.
    pub fn at(id: Uuid, name: String) -> Self {
        if name == UPLOAD {
            Self::Upload(id)
        } else {
            Self::Artifact(JobId(id), name)
        }
    }
}

/// Returns what is wrong with the name of an artifact. It is a file's name wherever it is saved.
pub fn flaw_of_name(name: &str) -> Option<&'static str> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let fits = (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_allowed);
    (!fits || name.starts_with(['.', '-'])).then_some(
        "the name of an artifact has 1 to 128 letters, digits, `_`, `.` and `-`, and begins with neither `.` nor `-`",
    )
}

/// Returns what is wrong with a content type. It becomes a header.
pub fn flaw_of_type(content_type: &str) -> Option<&'static str> {
    let is_visible = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
    let fits = content_type.len() <= TYPE_BYTES_MAX && content_type.bytes().all(is_visible);
    let has_both = content_type.split_once('/').is_some_and(|(kind, rest)| {
        !kind.is_empty() && kind.bytes().all(|it| it.is_ascii_alphanumeric()) && !rest.is_empty()
    });
    (!fits || !has_both)
        .then_some("a content type is like text/csv, in at most 128 characters of ASCII")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_that_of_a_file_and_a_type_fits_into_a_header() {
        for name in ["report.pdf", "a", "A_1-2.tar.gz"] {
            assert_eq!(flaw_of_name(name), None, "{name}");
        }
        let long = "a".repeat(129);
        for name in [
            "",
            ".",
            "..",
            ".x",
            "-x",
            "a/b",
            "a\\b",
            "a b",
            "ä",
            "a\n",
            long.as_str(),
        ] {
            assert!(flaw_of_name(name).is_some(), "{name:?}");
        }
        for good in ["text/csv", "text/html; charset=utf-8", UNKNOWN_TYPE] {
            assert_eq!(flaw_of_type(good), None, "{good}");
        }
        for bad in ["", "text", "/x", "text/", "text/csv\r\nx: y", "text/é"] {
            assert!(flaw_of_type(bad).is_some(), "{bad:?}");
        }
    }
}
