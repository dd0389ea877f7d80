//! The commands about uploads.

use host_core::artifact::NewArtifact;
use uuid::Uuid;

use super::Upload;
use crate::commands;

/// Keep an upload, unless its principal would have more than `quota_bytes` then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeepUpload {
    pub upload: Upload,
    pub artifact: Box<NewArtifact>,
    pub quota_bytes: u64,
}

/// Remove uploads that no job reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoveUploads(pub Vec<Uuid>);

commands! {
    Artifact {
        KeepUpload(KeepUpload) "keep_upload" -> (), keep_upload, |_| 0, "one upload";
        RemoveUploads(RemoveUploads) "remove_uploads" -> (), remove_uploads, |_| 0, "a page of uploads";
    }
}
