//! A runner ends its lease, once: the same message again gets the same answer, another one does not.

use host_core::outcome::Meter;
use host_core::port::lease::{Kept, LeaseMessage, Standing};
use host_core::time::Time;
use host_wire_kit::session::Link;

use super::leases::{Digest, Over};
use super::messages::send;
use super::{Answer, Effect, Lookup, Named, Orchestrator, Step, Todo};
use crate::convert;
use crate::messages::read::{EndIn, Status};
use crate::refusals::{Code, Refused};

/// A message that ends a lease.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) report: EndIn,
    /// Whether the runner has stopped because of a cancel.
    pub(crate) is_cancel_ack: bool,
    pub(crate) digest: Digest,
}

/// An end that came while another one of the same lease was under way.
#[derive(Debug)]
pub(super) struct LaterEnd(Link, Named, Box<End>);

impl End {
    fn message(&self) -> LeaseMessage {
        if self.is_cancel_ack {
            return LeaseMessage::CancelAck {
                partial: Some(convert::kept(&self.report)),
                message: Some(convert::message(&self.report)),
            };
        }
        LeaseMessage::Complete {
            outcome: convert::outcome(&self.report),
            meter: Meter::default(),
            worker: convert::worker(&self.report).non_empty(),
        }
    }

    pub(super) fn accepted(&self, named: &Named) -> Answer {
        if self.is_cancel_ack {
            return Answer::Accepted;
        }
        Answer::Completed(named.text.clone())
    }

    /// Returns whether this worker has ended an attempt of the job with such a message. The job may run again
    /// since.
    pub(super) fn is_kept(&self, named: &Named, kept: &Kept) -> bool {
        let Kept { job, attempts } = kept;
        let mut own = attempts.iter().filter(|it| it.executor == named.worker);
        let kept = Some(convert::kept(&self.report));
        own.any(|it| {
            let is_latest = it.number == job.lifecycle.attempt;
            let details = it.failure.as_ref().map(|failure| &failure.details);
            let is_failure = self.report.status != Status::Succeeded;
            (is_latest && job.result == kept) || (is_failure && details == Some(&kept))
        })
    }
}

impl Orchestrator {
    pub(super) fn end(&mut self, link: Link, named: Named, end: Box<End>, todo: &mut Todo) {
        if let Some(later) = self.ending.get_mut(&named.lease) {
            return later.push(LaterEnd(link, named, end));
        }
        let refused = match self.leases.over(&named) {
            None => {
                self.ending.insert(named.lease, Vec::new());
                return todo.effect(send(link, named, end.message(), Step::End(end)));
            }
            Some(Over::Ended(digest, _)) if digest == end.digest => {
                return todo.send(link, Ok(end.accepted(&named)));
            }
            Some(Over::Ended(_, status)) => Refused::recorded(status.as_str()),
            Some(Over::Stale(why)) => {
                self.ending.insert(named.lease, Vec::new());
                return recognize(link, named, end, Refused::stale(why), todo);
            }
        };
        todo.send(link, Err(refused));
    }

    /// Handles the host's answer to an end.
    pub(super) fn end_answered(
        &mut self,
        now: Time,
        link: Link,
        named: Named,
        end: Box<End>,
        answer: Result<Standing, Refused>,
        todo: &mut Todo,
    ) {
        let answer = match answer {
            Ok(_) => {
                self.keep_last_line(now, &named, todo);
                let over = Over::Ended(end.digest, end.report.status);
                self.leases.end(&named, over, todo);
                Ok(end.accepted(&named))
            }
            Err(refused) if refused.code == Code::StaleLease => {
                return recognize(link, named, end, refused, todo);
            }
            Err(refused) => Err(refused),
        };
        self.answer_end(link, &named, answer, todo);
    }

    /// Answers an end, and handles those that came before the answer.
    pub(super) fn answer_end(
        &mut self,
        link: Link,
        named: &Named,
        answer: Result<Answer, Refused>,
        todo: &mut Todo,
    ) {
        todo.send(link, answer);
        for LaterEnd(link, named, end) in self.ending.remove(&named.lease).unwrap_or_default() {
            self.end(link, named, end, todo);
        }
    }

    /// Takes a lease from a runner of this host.
    pub(super) fn give_back(
        &mut self,
        link: Link,
        named: Named,
        why: LeaseMessage,
        todo: &mut Todo,
    ) {
        if self.leases.over(&named).is_none() {
            return todo.effect(send(link, named, why, Step::GiveBack));
        }
        todo.send(link, Ok(Answer::GivenBack { was_held: false }));
    }
}

/// Looks up whether an end repeats one that is recorded: by another node, or before this host was restarted.
fn recognize(link: Link, named: Named, end: Box<End>, refused: Refused, todo: &mut Todo) {
    let job = named.job;
    let lookup = Lookup::Recognize(link, named, end, refused);
    todo.effect(Effect::Read(job, Box::new(lookup)));
}
