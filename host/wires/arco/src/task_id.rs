//! The ids of tasks: the ids of our jobs, and the `ct1_…` ids of the current contract, which name a run and
//! a task key. Pure.

use std::str;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use host_core::id::JobId;
use uuid::Uuid;

/// The longest id, in bytes.
pub(super) const ID_BYTES_MAX: usize = 1_024;

const OPAQUE: &str = "ct1_";

/// What an id names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TaskId {
    /// A job of ours.
    Job(JobId),
    /// A task of a run.
    OfRun { run: String, key: String },
}

impl TaskId {
    /// Reads an id from a path. Returns `None` if no task of ours can have it.
    pub(super) fn read(text: &str) -> Option<Self> {
        if text.len() > ID_BYTES_MAX {
            return None;
        }
        let Some(opaque) = text.strip_prefix(OPAQUE) else {
            return Some(Self::Job(job(text)?));
        };
        let bytes = URL_SAFE_NO_PAD.decode(opaque).ok()?;
        let (run, key) = str::from_utf8(&bytes).ok()?.split_once('\0')?;
        Some(Self::OfRun {
            run: run.to_owned(),
            key: key.to_owned(),
        })
    }
}

/// Reads the id of a job as we write it: 36 characters in lower case.
pub(super) fn job(text: &str) -> Option<JobId> {
    let id = Uuid::try_parse(text).ok()?;
    (id.to_string() == text).then_some(JobId(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_they_are_written() {
        let text = "0192f0c4-5b7a-7c3d-8e9f-000000000001";
        let id = JobId(Uuid::try_parse(text).unwrap());
        assert_eq!(TaskId::read(text), Some(TaskId::Job(id)));
        let (run, key) = ("run-123".to_owned(), "analytics.daily_sales".to_owned());
        let written = crate::tests::opaque_id(&run, &key);
        assert_eq!(written, "ct1_cnVuLTEyMwBhbmFseXRpY3MuZGFpbHlfc2FsZXM");
        assert_eq!(TaskId::read(&written), Some(TaskId::OfRun { run, key }));
        let long = "a".repeat(ID_BYTES_MAX + 1);
        for other in [
            "",
            "raw.ok",
            "../x",
            "ct1_",
            "ct1_cnVu",
            "ct1_!!",
            "0192F0C4-5B7A-7C3D-8E9F-000000000001",
            "{0192f0c4-5b7a-7c3d-8e9f-000000000001}",
            "0192f0c45b7a7c3d8e9f000000000001",
            &long,
        ] {
            assert_eq!(TaskId::read(other), None, "{other}");
        }
    }
}
