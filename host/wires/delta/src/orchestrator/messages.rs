//! Messages of the runner that holds a lease, and what the host answers. The host knows the lease; this is about
//! words and lines.

use bytes::Bytes;
use host_core::id::{JobId, LeaseId};
use host_core::port::lease::{EndCause, LeaseEnd, LeaseError, LeaseMessage, Standing};
use host_core::time::Time;
use host_wire_kit::session::Link;

use super::log_chunks::LogChunks;
use super::{
    Actions, Answer, Effect, Extension, Message, NamedLease, Orchestrator, PendingMessage, Step,
};
use crate::convert;
use crate::messages::read::HeartbeatIn;
use crate::refusals::{Code, Stale, WireRefusal};

/// The most logs whose last lines may be incomplete.
const LOGS_MAX: usize = 4_096;

/// The log of a runner that holds a lease.
#[derive(Debug, Default)]
pub(super) struct RunnerLog {
    chunks: LogChunks,
    attempt: u32,
    began_at: Time,
    /// How much the runner says that it has sent, in bytes.
    bytes_sent: u64,
}

impl Orchestrator {
    pub(super) fn message(
        &self,
        link: Link,
        named: NamedLease,
        message: Message,
        todo: &mut Actions,
    ) {
        let (message, step) = match message {
            Message::Ack => (LeaseMessage::Ack, Step::Ack),
            Message::Extension(Extension::Heartbeat(beat)) => self.heartbeat(&named, beat),
            Message::Extension(Extension::Log { offset, bytes }) => {
                return todo.effect(send_log(link, named, offset, bytes));
            }
            Message::End(end) => (end.message(), Step::End(end)),
        };
        todo.effect(send(link, named, message, step));
    }

    fn heartbeat(&self, named: &NamedLease, mut beat: HeartbeatIn) -> (LeaseMessage, Step) {
        if let (Some(bytes), Some(log)) = (&mut beat.bytes_sent, self.logs.get(&named.lease))
            && *bytes < log.bytes_sent
        {
            *bytes = log.bytes_sent;
            let warning = "log_cursor.bytes_sent: less than before; ignored";
            beat.warnings.push(warning.to_owned());
        }
        let message = LeaseMessage::Heartbeat {
            progress: convert::progress(&beat),
            wait_ms: beat.wait_seconds * 1_000,
        };
        (message, Step::Heartbeat(beat.bytes_sent, beat.warnings))
    }

    /// Handles the host's answer to a message.
    pub(super) fn answered(
        &mut self,
        now: Time,
        sent: PendingMessage,
        answer: Result<Standing, LeaseError>,
        todo: &mut Actions,
    ) {
        let link = sent.link;
        let answer = match answer {
            Ok(standing) => Ok(self.accepted(now, sent, &standing, todo)),
            Err(LeaseError::LogOffset { next }) => match continued(sent, next) {
                Ok(rest) => return todo.effect(rest),
                Err(answer) => answer,
            },
            Err(error) => {
                let is_end = matches!(sent.step, Step::End(_));
                Err(self.refuse(now, &sent.named, is_end, error, todo))
            }
        };
        todo.send(link, answer);
    }

    fn accepted(
        &mut self,
        now: Time,
        sent: PendingMessage,
        standing: &Standing,
        todo: &mut Actions,
    ) -> Answer {
        let PendingMessage { named, step, .. } = sent;
        match step {
            Step::Ack | Step::GiveBack => Answer::Accepted,
            Step::Heartbeat(bytes_sent, warnings) => {
                if let Some(bytes) = bytes_sent {
                    let log = self.log(named.lease, standing);
                    log.bytes_sent = log.bytes_sent.max(bytes);
                }
                let times = self.config.times;
                let ack = convert::heartbeat_ack(now, named.text, times, standing, warnings);
                Answer::Heartbeat(ack)
            }
            Step::Log { offset, bytes } => {
                self.keep_log(now, &named, standing, offset, &bytes, todo)
            }
            Step::End(end) => {
                self.end_log(now, named.job, named.lease, todo);
                end.accepted(&named)
            }
        }
    }

    /// Turns the host's refusal into one of the wire.
    fn refuse(
        &mut self,
        now: Time,
        named: &NamedLease,
        is_end: bool,
        error: LeaseError,
        todo: &mut Actions,
    ) -> WireRefusal {
        match error {
            LeaseError::Busy | LeaseError::Stopping => {
                WireRefusal::new(Code::Busy, error.to_string())
            }
            LeaseError::StoreFull => WireRefusal::new(Code::StoreFull, error.to_string()),
            LeaseError::NotAcknowledged => WireRefusal::new(
                Code::State,
                "the lease is not acknowledged: send AckLease first",
            ),
            LeaseError::CancelNotRequested => {
                WireRefusal::new(Code::State, "no cancel is requested: send Complete")
            }
            LeaseError::LogOffset { next } => WireRefusal::offset(next),
            LeaseError::TooManyHeartbeats => WireRefusal::rate(),
            LeaseError::NotYours { holder } => {
                todo.effect(Effect::WarnOfTheft(named.clone(), holder));
                todo.count(Code::LeaseTheft.as_str());
                WireRefusal::stale(Stale::Unknown)
            }
            LeaseError::Unknown => WireRefusal::stale(Stale::Unknown),
            LeaseError::Over(end) => {
                self.end_log(now, named.job, named.lease, todo);
                over(&end, is_end)
            }
        }
    }

    /// Keeps a chunk of a log. Returns where the log continues. The next chunk may go to another node, so that a
    /// line without an end waits for it only if there is none.
    fn keep_log(
        &mut self,
        now: Time,
        named: &NamedLease,
        standing: &Standing,
        offset: u64,
        bytes: &[u8],
        todo: &mut Actions,
    ) -> Answer {
        let is_alone = self.node.is_none();
        let log = self.log(named.lease, standing);
        let at_ms = now.since_ms(log.began_at);
        log.chunks.received(offset);
        let mut lines = log.chunks.push(bytes, at_ms);
        if !is_alone {
            lines.extend(log.chunks.flush(at_ms));
        }
        if !lines.is_empty() {
            todo.effect(Effect::KeepLog(named.job, log.attempt, log.began_at, lines));
        }
        Answer::Logged(offset.saturating_add(bytes.len() as u64))
    }

    /// Keeps the last line of a log, if it has no end.
    pub(super) fn end_log(&mut self, now: Time, job: JobId, lease: LeaseId, todo: &mut Actions) {
        let Some(mut log) = self.logs.remove(&lease) else {
            return;
        };
        if let Some(line) = log.chunks.flush(now.since_ms(log.began_at)) {
            todo.effect(Effect::KeepLog(job, log.attempt, log.began_at, vec![line]));
        }
    }

    fn log(&mut self, lease: LeaseId, standing: &Standing) -> &mut RunnerLog {
        if self.logs.len() >= LOGS_MAX && !self.logs.contains_key(&lease) {
            self.logs.pop_first();
        }
        self.logs.entry(lease).or_insert_with(|| RunnerLog {
            attempt: standing.attempt,
            began_at: standing.granted_at.unwrap_or_default(),
            ..RunnerLog::default()
        })
    }
}

/// Returns why a lease that is over is stale, or how the attempt ended if another end follows.
fn over(end: &LeaseEnd, is_end: bool) -> WireRefusal {
    match (end.cause, &end.attempt) {
        (EndCause::Reported, Some(attempt)) if is_end => {
            WireRefusal::recorded(convert::status(attempt).as_str())
        }
        (EndCause::Expired, _) => WireRefusal::stale(Stale::Expired),
        (EndCause::Reported | EndCause::Revoked, _) => WireRefusal::stale(Stale::Revoked),
    }
}

/// Returns the rest of a part of a log that is new, to be sent again, or the answer if it has none.
fn continued(sent: PendingMessage, next: u64) -> Result<Effect, Result<Answer, WireRefusal>> {
    let Step::Log { offset, bytes } = sent.step else {
        return Err(Err(WireRefusal::offset(next)));
    };
    let end = offset.saturating_add(bytes.len() as u64);
    if end <= next {
        return Err(Ok(Answer::Logged(next)));
    }
    if next <= offset {
        return Err(Err(WireRefusal::offset(next)));
    }
    let known = usize::try_from(next - offset).unwrap_or(usize::MAX);
    let rest = bytes.slice(known.min(bytes.len())..);
    Ok(send_log(sent.link, sent.named, next, rest))
}

/// Passes a message on to the host.
pub(super) fn send(link: Link, named: NamedLease, message: LeaseMessage, step: Step) -> Effect {
    Effect::Send(message, Box::new(PendingMessage { named, link, step }))
}

/// Passes a part of a log on to the host, which knows where the log continues.
fn send_log(link: Link, named: NamedLease, offset: u64, bytes: Bytes) -> Effect {
    let message = LeaseMessage::Log {
        offset,
        bytes: bytes.len() as u64,
    };
    send(link, named, message, Step::Log { offset, bytes })
}
