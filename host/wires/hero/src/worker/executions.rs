//! The executions of a worker session: starts them, after opening their log files, and passes on
//! their answers. Output of a guest goes to its file without passing through the session.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use host_core::failure::{Failure, FailureKind};
use host_core::outcome::Outcome;
use host_core::port::{Answer, Answers, Execute, ForeignJob, Reply, Stop, Tag};
use host_runtime::mailbox::Mailbox;
use parking_lot::Mutex;

use super::ExecutionAnswer;
use crate::log_files::{LogFile, LogFileError, LogFiles};

/// The queue of answers for the session: at most two for each execution.
pub(crate) type AnswerMailbox = Mailbox<(Tag, ExecutionEvent)>;

/// An event of an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ExecutionEvent {
    /// Its guest runs now.
    Began,
    /// Nothing follows about it.
    Over(ExecutionAnswer),
}

/// The executions of one session.
pub(crate) struct Executions {
    files: Option<LogFiles>,
    shared: Arc<Shared>,
}

struct Shared {
    execute: Arc<dyn Execute>,
    answers: Arc<AnswerMailbox>,
    /// Jobs that have not started because their log file is being opened. Locked during each call
    /// of `execute`, so that calls do not overlap and no stop overtakes its start.
    opening: Mutex<HashMap<Tag, Box<ForeignJob>>>,
}

impl Executions {
    pub(crate) fn new(
        execute: Arc<dyn Execute>,
        files: Option<LogFiles>,
        answers: Arc<AnswerMailbox>,
    ) -> Self {
        let shared = Shared {
            execute,
            answers,
            opening: Mutex::default(),
        };
        Self {
            files,
            shared: Arc::new(shared),
        }
    }

    /// Starts an execution. If it has a log file, opens that first. One answer follows.
    pub(crate) fn start(&self, tag: Tag, job: Box<ForeignJob>, log_path: Option<String>) {
        let shared = &self.shared;
        let Some(log_path) = log_path else {
            let _guard = shared.opening.lock();
            return shared.start(tag, *job, None);
        };
        let Some(files) = &self.files else {
            let why = "no folder for logs is configured".to_owned();
            return shared.answer(tag, ExecutionAnswer::NoLog(why));
        };
        let (id, attempt) = (job.external_id.clone(), job.attempt);
        shared.opening.lock().insert(tag, job);
        let opened = {
            let shared = Arc::clone(shared);
            move |opened| shared.opened(tag, opened)
        };
        if !files.open(&log_path, &id, attempt, opened)
            && shared.opening.lock().remove(&tag).is_some()
        {
            shared.answer(tag, ExecutionAnswer::Busy);
        }
    }

    /// Stops an execution. If it still waits for its log file, it ends immediately.
    pub(crate) fn stop(&self, tag: Tag, grace_ms: u64, why: Stop) {
        let mut opening = self.shared.opening.lock();
        if opening.remove(&tag).is_none() {
            return self.shared.execute.stop(tag, grace_ms, why);
        }
        let failure = Failure::new(FailureKind::Cancelled, why.as_str());
        let ended = ExecutionAnswer::Ended(Outcome::Failed(failure));
        self.shared.answer(tag, ended);
    }
}

impl Drop for Executions {
    /// Gives up executions that have not started, because they can no longer be stopped.
    fn drop(&mut self) {
        self.shared.opening.lock().clear();
    }
}

impl Shared {
    /// Starts the execution whose log file is open, or reports why it could not be opened. Does
    /// nothing if the execution was stopped.
    fn opened(&self, tag: Tag, opened: Result<LogFile, LogFileError>) {
        let mut opening = self.opening.lock();
        let Some(job) = opening.remove(&tag) else {
            return;
        };
        match opened {
            Ok(file) => self.start(tag, *job, Some(file)),
            Err(error) => self.answer(tag, ExecutionAnswer::NoLog(error.to_string())),
        }
    }

    fn start(&self, tag: Tag, job: ForeignJob, file: Option<LogFile>) {
        let answers = ExecutionAnswers {
            file: Mutex::new(file),
            mailbox: Arc::clone(&self.answers),
        };
        self.execute.start(job, Reply::new(tag, Arc::new(answers)));
    }

    fn answer(&self, tag: Tag, answered: ExecutionAnswer) {
        report(&self.answers, tag, ExecutionEvent::Over(answered));
    }
}

fn report(mailbox: &AnswerMailbox, tag: Tag, event: ExecutionEvent) {
    // The mailbox is never closed, so this cannot fail.
    let _ = mailbox.put((tag, event));
}

/// Receives the answers of one execution.
struct ExecutionAnswers {
    /// The log file, until the execution has ended.
    file: Mutex<Option<LogFile>>,
    mailbox: Arc<AnswerMailbox>,
}

impl Answers for ExecutionAnswers {
    fn answer(self: Arc<Self>, tag: Tag, answer: Answer) {
        let mut file = self.file.lock();
        let answered = match answer {
            Answer::Ended(outcome, _) => ExecutionAnswer::Ended(outcome),
            Answer::Busy => ExecutionAnswer::Busy,
            Answer::Began => return report(&self.mailbox, tag, ExecutionEvent::Began),
            Answer::Logged { started_at, lines } => {
                if let Some(file) = &*file {
                    file.write(started_at, &lines);
                }
                return;
            }
            Answer::Progressed(_) => return,
        };
        // The file is closed first, because the next attempt of the job continues in it.
        drop(file.take());
        report(&self.mailbox, tag, ExecutionEvent::Over(answered));
    }
}
