//! Audits Execute: a stop never comes before its start, and each start gets one last answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::Violations;
use host_core::port::{Answer, Answers, Execute, ForeignJob, Reply, Stop, Tag};

/// The state of each execution.
type Executions = Arc<Mutex<BTreeMap<Tag, Execution>>>;

#[derive(Clone, Copy)]
struct Execution {
    is_answered: bool,
    wants_log: bool,
}

/// Stands between the session of a wire and the executor of its jobs.
pub struct ExecuteAudit {
    executions: Executions,
    violations: Violations,
    execute: Arc<dyn Execute>,
}

impl ExecuteAudit {
    /// Passes jobs on to `execute`. One audit is for one session.
    pub fn new(execute: Arc<dyn Execute>) -> Arc<Self> {
        Arc::new(Self {
            executions: Arc::default(),
            violations: Violations::default(),
            execute,
        })
    }

    /// Returns the violations, in order.
    pub fn violations(&self) -> Vec<String> {
        self.violations.list()
    }

    /// Checks that there are no violations so far. Executions may still lack an answer.
    pub fn assert_kept(&self) {
        self.violations.assert_none("Execute");
    }

    /// Checks that there are no violations and that every start has got its last answer.
    pub fn assert_settled(&self) {
        self.assert_kept();
        let executions = self.executions.lock();
        let open: Vec<Tag> = executions
            .iter()
            .filter(|(_, it)| !it.is_answered)
            .map(|(tag, _)| *tag)
            .collect();
        assert!(open.is_empty(), "no last answer was given to {open:?}");
    }
}

impl Execute for ExecuteAudit {
    fn start(&self, job: ForeignJob, reply: Reply) {
        let tag = reply.tag();
        let execution = Execution {
            is_answered: false,
            wants_log: job.wants_log,
        };
        let before = self.executions.lock().insert(tag, execution);
        if before.is_some() {
            self.violations.note(format!("{tag:?} is started twice"));
        }
        let audited = Audited {
            executions: Arc::clone(&self.executions),
            violations: self.violations.clone(),
            reply: Mutex::new(Some(reply)),
        };
        self.execute.start(job, Reply::new(tag, Arc::new(audited)));
    }

    fn stop(&self, tag: Tag, grace_ms: u64, why: Stop) {
        if !self.executions.lock().contains_key(&tag) {
            self.violations
                .note(format!("a stop of {tag:?}, which was never started"));
        }
        self.execute.stop(tag, grace_ms, why);
    }
}

/// The answers to one execution behind the audit.
struct Audited {
    executions: Executions,
    violations: Violations,
    /// `None` after the last answer.
    reply: Mutex<Option<Reply>>,
}

impl Audited {
    fn check(&self, tag: Tag, answer: &Answer) {
        let is_last = matches!(answer, Answer::Ended(..) | Answer::Busy);
        let is_log = matches!(answer, Answer::Logged { .. });
        match self.executions.lock().get_mut(&tag) {
            None => self
                .violations
                .note(format!("an answer to {tag:?}, which was never started")),
            Some(it) if it.is_answered => self
                .violations
                .note(format!("an answer to {tag:?} after its last one")),
            Some(it) => {
                if is_log && !it.wants_log {
                    self.violations
                        .note(format!("log lines of {tag:?}, which wants none"));
                }
                it.is_answered = is_last;
            }
        }
    }
}

impl Answers for Audited {
    fn answer(self: Arc<Self>, tag: Tag, answer: Answer) {
        self.check(tag, &answer);
        // Release the lock before the session gets the answer: it may start another execution at
        // once.
        let Some(reply) = self.reply.lock().take() else {
            return self
                .violations
                .note(format!("an answer to {tag:?} within or after another one"));
        };
        match answer {
            Answer::Began => reply.began(),
            Answer::Progressed(progress) => reply.progressed(progress),
            Answer::Logged { started_at, lines } => reply.logged(started_at, lines),
            Answer::Ended(outcome, meter) => return reply.ended(outcome, meter),
            Answer::Busy => return reply.busy(),
        }
        *self.reply.lock() = Some(reply);
    }
}
