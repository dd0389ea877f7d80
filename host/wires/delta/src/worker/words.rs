//! The messages of a runner, in the two dialects of the field. The documented one says all that the
//! document has; the strict one leaves out what an orchestrator that knows less refuses. Pure.

use host_core::outcome::Progress;
use serde::Serialize;

use super::exchange::Kind;
use crate::messages::lease_id::LeaseText;
use crate::messages::read::{Artifact, Status};

/// What an orchestrator understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Documented,
    Strict,
}

/// Who speaks about which lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Speaker {
    pub(super) runner: String,
    pub(super) lease: LeaseText,
    pub(super) job: String,
}

/// How far a job is.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Stage {
    pub(super) step: String,
    pub(super) step_index: usize,
    pub(super) progress: Option<Progress>,
    pub(super) log_bytes: u64,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) status: Status,
    pub(super) started_at: String,
    pub(super) finished_at: String,
    pub(super) artifacts: Vec<Artifact>,
    pub(super) summary: String,
}

#[derive(Serialize)]
struct Ack<'a> {
    r#type: &'static str,
    job_id: &'a str,
    lease_id: &'a str,
    runner_id: &'a str,
    accepted_at: &'a str,
}

#[derive(Serialize)]
struct Heartbeat<'a> {
    r#type: &'static str,
    lease_id: &'a str,
    runner_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<ProgressOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    log_cursor: Option<LogCursor>,
    ts: &'a str,
    /// How long the answer may wait for a cancel; only for those who lease over the network.
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_seconds: Option<u64>,
}

#[derive(Serialize)]
struct ProgressOut<'a> {
    percent: u8,
    current_step: &'a str,
    step_index: usize,
    message: &'a str,
}

#[derive(Serialize)]
struct LogCursor {
    bytes_sent: u64,
}

#[derive(Serialize)]
struct Complete<'a> {
    r#type: &'static str,
    lease_id: &'a str,
    runner_id: &'a str,
    status: &'static str,
    exit_code: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    timings: Option<Timings<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at: Option<&'a str>,
    artifacts: &'a [Artifact],
    summary: &'a str,
}

#[derive(Serialize)]
struct Timings<'a> {
    started_at: &'a str,
    finished_at: &'a str,
}

#[derive(Serialize)]
struct CancelAck<'a> {
    r#type: &'static str,
    lease_id: &'a str,
    runner_id: &'a str,
    final_status: &'static str,
    ts: &'a str,
    artifacts: &'a [Artifact],
    summary: &'a str,
}

impl Speaker {
    pub(super) fn ack(&self, now: &str) -> String {
        text(&Ack {
            r#type: "AckLease",
            job_id: &self.job,
            lease_id: &self.lease.0,
            runner_id: &self.runner,
            accepted_at: now,
        })
    }

    pub(super) fn heartbeat(
        &self,
        dialect: Dialect,
        now: &str,
        stage: &Stage,
        wait_seconds: Option<u64>,
    ) -> String {
        let is_documented = dialect == Dialect::Documented;
        let progress = stage.progress.as_ref();
        let percent = progress.and_then(|it| it.percent).unwrap_or_default();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is from 0 to 100"
        )]
        let percent = percent.clamp(0.0, 100.0) as u8;
        text(&Heartbeat {
            r#type: "Heartbeat",
            lease_id: &self.lease.0,
            runner_id: &self.runner,
            progress: is_documented.then(|| ProgressOut {
                percent,
                current_step: &stage.step,
                step_index: stage.step_index,
                message: progress.map_or("", |it| &it.message),
            }),
            log_cursor: is_documented.then_some(LogCursor {
                bytes_sent: stage.log_bytes,
            }),
            ts: now,
            wait_seconds: wait_seconds.filter(|_| is_documented),
        })
    }

    /// Returns the message that ends the lease.
    pub(super) fn end(&self, dialect: Dialect, end: &End) -> (Kind, String) {
        if end.status == Status::Canceled {
            return (Kind::CancelAck, self.cancel_ack(end));
        }
        (Kind::Complete, self.complete(dialect, end))
    }

    fn complete(&self, dialect: Dialect, end: &End) -> String {
        let is_documented = dialect == Dialect::Documented;
        let status = match (end.status, dialect) {
            // A strict orchestrator knows no other failure.
            (Status::TimedOut, Dialect::Strict) => Status::Failed,
            (status, _) => status,
        };
        text(&Complete {
            r#type: "Complete",
            lease_id: &self.lease.0,
            runner_id: &self.runner,
            status: status.as_str(),
            exit_code: u8::from(end.status != Status::Succeeded),
            timings: is_documented.then_some(Timings {
                started_at: &end.started_at,
                finished_at: &end.finished_at,
            }),
            finished_at: (!is_documented).then_some(&end.finished_at),
            artifacts: &end.artifacts,
            summary: &end.summary,
        })
    }

    fn cancel_ack(&self, end: &End) -> String {
        text(&CancelAck {
            r#type: "CancelAck",
            lease_id: &self.lease.0,
            runner_id: &self.runner,
            final_status: Status::Canceled.as_str(),
            ts: &end.finished_at,
            artifacts: &end.artifacts,
            summary: &end.summary,
        })
    }
}

fn text(message: &impl Serialize) -> String {
    serde_json::to_string(message).unwrap_or_default()
}
