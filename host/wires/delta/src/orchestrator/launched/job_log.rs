//! What a runner that this host starts writes, as the log of its job: its standard output and error, and
//! the file that it was given for the log, as that grows.

use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use host_core::cell::{LogLine, LogSource};
use host_core::id::JobId;
use host_core::port::{Clock, JobLogs};
use host_core::time::Time;
use host_runtime::folder::{self, Dir};
use parking_lot::Mutex;

use super::files::LOG;
use crate::messages::LOG_BYTES_MAX;
use crate::messages::lease_id::LeaseText;
use crate::orchestrator::log_chunks::LogChunks;

/// How much of the file one read takes, in bytes.
const CHUNK_BYTES: u64 = 256 << 10;

/// What people see instead of the lease, should the runner write it.
const HIDDEN: &str = "[lease]";

/// Which attempt it is.
pub(super) struct Attempt {
    pub(super) job: JobId,
    pub(super) number: u32,
    pub(super) began_at: Time,
    pub(super) lease: LeaseText,
}

/// The log of one attempt.
pub(super) struct JobLog {
    attempt: Attempt,
    folder: Dir,
    clock: Arc<dyn Clock>,
    logs: Option<Arc<dyn JobLogs>>,
    chunks: Mutex<LogChunks>,
}

impl JobLog {
    pub(super) fn new(
        attempt: Attempt,
        folder: Dir,
        clock: Arc<dyn Clock>,
        logs: Option<Arc<dyn JobLogs>>,
    ) -> Self {
        Self {
            attempt,
            folder,
            clock,
            logs,
            chunks: Mutex::default(),
        }
    }

    /// Adds a line.
    pub(super) fn wrote(&self, source: LogSource, line: &str) {
        self.with(|chunks, at_ms| chunks.note(source, line, at_ms).into_iter().collect());
    }

    /// Adds what has been written to the file since the last time, up to a limit; all of it if the
    /// runner has ended.
    pub(super) fn follow(&self, has_ended: bool) {
        self.with(|chunks, at_ms| {
            let most = if has_ended {
                LOG_BYTES_MAX
            } else {
                CHUNK_BYTES
            };
            let from = chunks.next();
            let bytes = if from > LOG_BYTES_MAX {
                Vec::new()
            } else {
                self.read(from, most)
            };
            let mut lines = chunks.push(&bytes, at_ms);
            if has_ended {
                lines.extend(chunks.flush(at_ms));
            }
            lines
        });
    }

    /// Reads from the file, which the runner may not have made yet.
    fn read(&self, from: u64, most: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        let read = folder::read(&self.folder, Path::new(LOG)).and_then(|mut file| {
            file.seek(SeekFrom::Start(from))?;
            file.take(most).read_to_end(&mut bytes)
        });
        match read {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                tracing::debug!(job = %self.attempt.job, %error, "cannot read the log of a runner");
            }
            _ => {}
        }
        bytes
    }

    fn with(&self, change: impl FnOnce(&mut LogChunks, u64) -> Vec<LogLine>) {
        let at_ms = self.clock.now().since_ms(self.attempt.began_at);
        // Locked until the lines are kept, so that their order stays.
        let mut chunks = self.chunks.lock();
        let mut lines = change(&mut chunks, at_ms);
        for line in &mut lines {
            if line.message.contains(&self.attempt.lease.0) {
                line.message = line.message.replace(&self.attempt.lease.0, HIDDEN);
            }
        }
        if let (Some(logs), false) = (&self.logs, lines.is_empty()) {
            let Attempt {
                job,
                number,
                began_at,
                ..
            } = self.attempt;
            let _ = logs.keep(job, number, began_at, lines);
        }
    }
}
