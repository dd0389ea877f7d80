//! Acknowledgements, heartbeats and logs of the runner that holds a lease, and what the host answers.

use bytes::Bytes;
use host_core::id::{JobId, LeaseId};
use host_core::lease::Revocation;
use host_core::port::lease::{Kept, LeaseError, LeaseMessage, Standing};
use host_core::rejection::LeaseRefusal;
use host_core::time::Time;
use host_wire_kit::session::Link;

use super::leases::{Lease, Over, WaitingBeat};
use super::{Answer, Effect, Extension, Lookup, Message, Named, Orchestrator, Sent, Step, Todo};
use crate::convert;
use crate::refusals::{Code, Refused, Stale};

/// The time limit of a job that sets none, in milliseconds.
const TIMEOUT_MS: u64 = 30_000;

impl Orchestrator {
    pub(super) fn message(
        &mut self,
        now: Time,
        link: Link,
        named: Named,
        message: Message,
        todo: &mut Todo,
    ) {
        match message {
            Message::Ack => match self.leases.over(&named) {
                Some(over) => todo.send(link, Err(Refused::stale(over.stale()))),
                None => todo.effect(send(link, named, LeaseMessage::Ack, Step::Ack)),
            },
            Message::Extension(extension) => self.extend(now, link, named, extension, false, todo),
            Message::End(end) => self.end(link, named, end, todo),
        }
    }

    /// Handles a message that extends a lease. If the lease is not known, this host may have granted it before it
    /// was restarted: then its job is looked up first.
    fn extend(
        &mut self,
        now: Time,
        link: Link,
        named: Named,
        extension: Extension,
        is_looked_up: bool,
        todo: &mut Todo,
    ) {
        let ttl_ms = self.ttl_ms();
        let mut lease = if let Some(lease) = self.leases.live(&named) {
            lease.extend(now, ttl_ms);
            let is_heartbeat = matches!(extension, Extension::Heartbeat(_));
            if is_heartbeat && !lease.may_beat(now) {
                return todo.send(link, Err(Refused::rate()));
            }
            Some(lease)
        } else {
            if let Some(over) = self.leases.over(&named) {
                return todo.send(link, Err(Refused::stale(over.stale())));
            }
            if !is_looked_up && !self.leases.is_known(named.lease) {
                let job = named.job;
                let lookup = Lookup::Adopt(link, named, extension);
                return todo.effect(Effect::Read(job, Box::new(lookup)));
            }
            None
        };
        let (progress, step) = match extension {
            Extension::Log { offset, bytes } => {
                return todo.effect(send_log(link, named, offset, bytes));
            }
            Extension::Heartbeat(mut beat) => {
                if let (Some(bytes), Some(lease)) = (&mut beat.bytes_sent, &mut lease) {
                    let most = lease.record_sent(*bytes);
                    if *bytes < most {
                        let warning = "log_cursor.bytes_sent: less than before; ignored";
                        beat.warnings.push(warning.to_owned());
                    }
                    *bytes = most;
                }
                let waits = beat.wait_seconds > 0;
                if let (true, Some(lease)) = (waits, lease) {
                    lease.announce(link);
                }
                let until = waits.then(|| now.plus_ms(beat.wait_seconds * 1_000));
                let progress = convert::progress(&beat);
                (progress, Step::Heartbeat(beat.warnings, until))
            }
        };
        let message = LeaseMessage::Heartbeat { progress };
        todo.effect(send(link, named, message, step));
    }

    /// Answers a heartbeat that has waited.
    pub(super) fn beat_again(&mut self, beat: WaitingBeat, todo: &mut Todo) {
        let WaitingBeat {
            link,
            named,
            warnings,
            ..
        } = beat;
        if let Some(over) = self.leases.over(&named) {
            return todo.send(link, Err(Refused::stale(over.stale())));
        }
        let message = LeaseMessage::Heartbeat { progress: None };
        todo.effect(send(link, named, message, Step::Heartbeat(warnings, None)));
    }

    /// Handles that a lease is over without a message of its runner to this node.
    pub(super) fn revoked(
        &mut self,
        now: Time,
        (job, lease): (JobId, LeaseId),
        why: Revocation,
        todo: &mut Todo,
    ) {
        if let Some(worker) = self.leases.holder(lease) {
            let named = Named::new(job, lease, worker.to_owned());
            self.keep_last_line(now, &named, todo);
            if why == Revocation::TimedOut {
                todo.effect(Effect::WarnOfOverrun(named));
            }
        }
        let why = match why {
            Revocation::Expired => Stale::Expired,
            Revocation::NotAcknowledged
            | Revocation::Cancelled
            | Revocation::TimedOut
            | Revocation::EndedElsewhere => Stale::Revoked,
        };
        self.leases.close(lease, Over::Stale(why), todo);
    }

    /// Returns when an attempt has lasted too long.
    pub(super) fn ends_by(&self, granted_at: Time, timeout_ms: Option<u64>) -> Time {
        let timeout_ms = timeout_ms.unwrap_or(TIMEOUT_MS);
        granted_at.plus_ms(timeout_ms.saturating_add(self.config.times.report_ms()))
    }

    /// Handles the host's answer to a message.
    pub(super) fn answered(
        &mut self,
        now: Time,
        sent: Sent,
        answer: Result<Standing, LeaseError>,
        todo: &mut Todo,
    ) {
        let Sent { named, link, step } = sent;
        let (step, answer) = match (step, answer) {
            (
                Step::Log { offset, bytes },
                Err(LeaseError::Rejected(LeaseRefusal::LogOffset { next })),
            ) => {
                let end = offset.saturating_add(bytes.len() as u64);
                if offset < next && next < end {
                    // Only a part of it is new.
                    let known = usize::try_from(next - offset).unwrap_or(usize::MAX);
                    let rest = bytes.slice(known.min(bytes.len())..);
                    return todo.effect(send_log(link, named, next, rest));
                }
                let answer = if end <= next {
                    Ok(Answer::Logged(next))
                } else {
                    Err(Refused::offset(next))
                };
                return todo.send(link, answer);
            }
            other => other,
        };
        let answer = answer.map_err(|error| self.refuse(&named, &error, todo));
        let answer = match step {
            Step::Ack => answer.map(|_| Answer::Accepted),
            Step::Heartbeat(warnings, until) => match (answer, until) {
                (Ok(standing), Some(until)) if self.may_wait(&standing) => {
                    let beat = WaitingBeat {
                        link,
                        named,
                        warnings,
                        until,
                    };
                    if let Some(beat) = self.leases.wait(beat) {
                        self.beat_again(beat, todo);
                    }
                    return;
                }
                (answer, until) => answer.map(|standing| {
                    if let (Some(_), Some(lease)) = (until, self.leases.live(&named)) {
                        lease.forget_beat(link);
                    }
                    let times = self.config.times;
                    let ack = convert::heartbeat_ack(now, named.text, times, &standing, warnings);
                    Answer::Heartbeat(ack)
                }),
            },
            Step::Log { offset, bytes } => {
                answer.map(|_| self.keep_log(now, &named, offset, &bytes, todo))
            }
            Step::End(end) => return self.end_answered(now, link, named, end, answer, todo),
            Step::GiveBack => {
                let was_held = answer.is_ok();
                if was_held {
                    self.leases
                        .close(named.lease, Over::Stale(Stale::Revoked), todo);
                }
                Ok(Answer::GivenBack { was_held })
            }
        };
        todo.send(link, answer);
    }
}

impl Orchestrator {
    fn may_wait(&self, standing: &Standing) -> bool {
        standing.cancel.is_none() && !self.is_stopping
    }

    /// Keeps a chunk of a log. Returns where the log continues. The next chunk may go to another node, so that a
    /// line without an end waits for it only if there is none.
    fn keep_log(
        &mut self,
        now: Time,
        named: &Named,
        offset: u64,
        bytes: &[u8],
        todo: &mut Todo,
    ) -> Answer {
        if let Some(lease) = self.leases.live(named) {
            let at_ms = now.since_ms(lease.began_at);
            lease.log.received(offset);
            let mut lines = lease.log.push(bytes, at_ms);
            if self.node.is_some() {
                lines.extend(lease.log.flush(at_ms));
            }
            if !lines.is_empty() {
                let (attempt, began_at) = (lease.attempt, lease.began_at);
                todo.effect(Effect::KeepLog(named.job, attempt, began_at, lines));
            }
        }
        Answer::Logged(offset.saturating_add(bytes.len() as u64))
    }

    /// Keeps the last line of a log, if it has no end.
    pub(super) fn keep_last_line(&mut self, now: Time, named: &Named, todo: &mut Todo) {
        let Some(lease) = self.leases.live(named) else {
            return;
        };
        let (attempt, began_at) = (lease.attempt, lease.began_at);
        if let Some(line) = lease.log.flush(now.since_ms(began_at)) {
            todo.effect(Effect::KeepLog(named.job, attempt, began_at, vec![line]));
        }
    }

    /// Handles a job that was looked up.
    pub(super) fn looked_up(
        &mut self,
        now: Time,
        lookup: Lookup,
        kept: Result<Option<Box<Kept>>, LeaseError>,
        todo: &mut Todo,
    ) {
        match (lookup, kept) {
            (Lookup::Adopt(link, named, extension), Ok(kept)) => {
                self.adopt(now, &named, kept);
                self.extend(now, link, named, extension, true, todo);
            }
            (Lookup::Adopt(link, ..), Err(error)) => {
                todo.send(link, Err(Refused::new(Code::Busy, error.to_string())));
            }
            (Lookup::Recognize(link, named, end, refused), kept) => {
                let kept = kept.ok().flatten();
                let is_kept = kept.is_some_and(|kept| end.is_kept(&named, &kept));
                let answer = if is_kept {
                    Ok(end.accepted(&named))
                } else {
                    Err(refused)
                };
                self.answer_end(link, &named, answer, todo);
            }
        }
    }

    /// Learns of a lease that was granted before the host started, or by another node. One that is not current
    /// stays unknown, and the rules refuse its messages.
    fn adopt(&mut self, now: Time, named: &Named, kept: Option<Box<Kept>>) {
        let Some(job) = kept.map(|kept| kept.job.lifecycle) else {
            return;
        };
        let Some(lease) = &job.lease else {
            return;
        };
        let is_current = lease.id == named.lease && lease.worker == named.worker;
        if !is_current || lease.ack_by.is_some() || self.leases.is_known(named.lease) {
            return;
        }
        let ends_by = self.ends_by(lease.granted_at, job.policy.timeout_ms);
        let worker = named.worker.clone();
        let mut adopted = Lease::new(lease.granted_at, ends_by, worker, job.attempt);
        adopted.is_own = self.node.is_none_or(|node| node == lease.node);
        self.leases.adopt(now, self.ttl_ms(), named.lease, adopted);
    }

    /// Turns the host's refusal into one of the wire.
    fn refuse(&mut self, named: &Named, error: &LeaseError, todo: &mut Todo) -> Refused {
        let rejection = match error {
            LeaseError::Rejected(rejection) => rejection,
            LeaseError::Busy | LeaseError::Stopping => {
                return Refused::new(Code::Busy, error.to_string());
            }
            LeaseError::StoreFull => return Refused::new(Code::StoreFull, error.to_string()),
        };
        match rejection {
            LeaseRefusal::NotAcknowledged => Refused::new(
                Code::State,
                "the lease is not acknowledged: send AckLease first",
            ),
            LeaseRefusal::CancelNotRequested => {
                Refused::new(Code::State, "no cancel is requested: send Complete")
            }
            LeaseRefusal::LogOffset { next } => Refused::offset(*next),
            LeaseRefusal::Stale
            | LeaseRefusal::Expired
            | LeaseRefusal::UnknownJob(_)
            | LeaseRefusal::WrongState(_) => Refused::stale(self.stale(named, todo)),
        }
    }

    fn stale(&mut self, named: &Named, todo: &mut Todo) -> Stale {
        let Some(holder) = self.leases.other_holder(named) else {
            return self.leases.stale(named, todo);
        };
        let holder = holder.to_owned();
        todo.effect(Effect::WarnOfTheft(named.clone(), holder));
        todo.count(Code::LeaseTheft.as_str());
        Stale::Unknown
    }
}

/// Passes a message on to the host.
pub(super) fn send(link: Link, named: Named, message: LeaseMessage, step: Step) -> Effect {
    Effect::Send(message, Box::new(Sent { named, link, step }))
}

/// Passes a part of a log on to the host, which knows where the log continues.
fn send_log(link: Link, named: Named, offset: u64, bytes: Bytes) -> Effect {
    let message = LeaseMessage::Log {
        offset,
        bytes: bytes.len() as u64,
    };
    send(link, named, message, Step::Log { offset, bytes })
}
