//! The artifacts of a job.

use host_core::artifact::Artifact;
use host_core::hex::hex;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A file that a job has produced.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Artifact)]
pub struct ArtifactView {
    /// Its name.
    pub name: String,
    /// What its handler says that it is.
    pub content_type: String,
    /// Its length.
    pub bytes: u64,
    /// The SHA-256 of its content, in hexadecimal digits.
    pub sha256: String,
}

impl From<Artifact> for ArtifactView {
    fn from(artifact: Artifact) -> Self {
        Self {
            name: artifact.name,
            content_type: artifact.content_type,
            bytes: artifact.bytes,
            sha256: hex(&artifact.sha256),
        }
    }
}
