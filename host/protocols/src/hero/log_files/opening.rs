//! Executions whose log file is being opened: nothing has started, and a stop ends them at once,
//! however long the disk takes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use host_core::failure::{Failure, FailureKind};
use host_core::outcome::Outcome;
use host_core::port::{ForeignJob, Reply, Stop};

use super::inbox::{Ask, Inbox, Key};
use crate::hero_logs::LogFiles;

/// What waits for its file.
#[derive(Default)]
pub(super) struct Opening {
    waiting: Mutex<HashMap<Key, (Box<ForeignJob>, Reply)>>,
}

impl Opening {
    /// Opens the file at `log_path`, and then starts the execution or answers why it does not.
    pub(super) fn begin(
        self: &Arc<Self>,
        files: &LogFiles,
        inbox: &Arc<Inbox>,
        log_path: &str,
        (key, job, reply): (Key, Box<ForeignJob>, Reply),
    ) {
        let (id, attempt) = (job.external_id.clone(), job.attempt);
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.insert(key, (job, reply));
        drop(waiting);
        let (opening, to) = (Arc::clone(self), Arc::clone(inbox));
        let asked = files.open(log_path, &id, attempt, move |opened| {
            // Held until the start lies in the inbox, so that no stop overtakes it.
            let mut waiting = opening
                .waiting
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let Some((job, reply)) = waiting.remove(&key) else {
                return;
            };
            let log = match opened {
                Ok(file) => Some(file),
                Err(error) => return reply.no_log(error.to_string()),
            };
            let start = Ask::Start {
                key,
                job,
                reply,
                log,
            };
            if let Err(reply) = to.start(start) {
                reply.busy();
            }
        });
        if !asked && let Some(reply) = self.take(key) {
            reply.busy();
        }
    }

    /// Ends an execution that waits here; `false` if it does not.
    pub(super) fn stop(&self, key: Key, why: Stop) -> bool {
        let Some(reply) = self.take(key) else {
            return false;
        };
        let failure = Failure::new(FailureKind::Cancelled, why.as_str());
        reply.ended(Outcome::Failed(failure));
        true
    }

    /// Gives everything up: rights to answer that are dropped say that the work is lost.
    pub(super) fn close(&self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let dropped = std::mem::take(&mut *waiting);
        drop(waiting);
        drop(dropped);
    }

    fn take(&self, key: Key) -> Option<Reply> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.remove(&key).map(|(_, reply)| reply)
    }
}
