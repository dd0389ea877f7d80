//! Why uploads are refused.

use host_core::id::JobId;
use uuid::Uuid;

use crate::refusals;

refusals! {
    /// Why an upload cannot be kept, or given to a job.
    pub enum ArtifactRefusal {
        /// A principal would have more uploads than it may.
        #[error("the uploads of this token would have {bytes} bytes together, more than the {quota_bytes} of artifacts.token_max_mib")]
        Full { bytes: u64, quota_bytes: u64 } = ARTIFACTS_FULL 409 "artifacts_full", "No room for the file",
            "The uploads of the token, or all artifacts of the host, have as many bytes as the configuration allows.",
            "Purge jobs that read uploads, wait until unused ones are removed, or raise artifacts.max_mib or \
             artifacts.token_max_mib in the configuration.";
        /// A job is to read an artifact of one that was there before, on behalf of a principal that may not see it.
        #[error("the artifacts of job {0} cannot be read here")]
        Hidden(JobId) = FILE_HIDDEN 403 "file_hidden", "File of another job",
            "An artifact is that of a job that was there before. That needs the verb read_payload, and handlers cannot ask for it.",
            "Enqueue both jobs in one request, and name the other one as \"#n\".";
        /// A job is to read an upload that is not there.
        #[error("files: there is no upload {0} that new jobs may read")]
        UnknownUpload(Uuid) = UNKNOWN_UPLOAD 422 "unknown_upload", "No such upload",
            "The upload was sent by another token or more than 24 hours ago, or it never was.",
            "Send the file again with `host artifact put`.";
    }
}
