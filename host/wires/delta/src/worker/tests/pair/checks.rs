//! What must hold in every history, whatever is lost, late, doubled or overtaken.

use host_core::job::State;
use host_core::port::Clock as _;

use super::{Answered, LINES, Sim};
use crate::messages::lease_id::LeaseText;
use crate::messages::read;
use crate::refusals::{Code, More, WireRefusal};
use crate::worker::client::sort;
use crate::worker::exchange::{Kind, Response};

impl Sim {
    /// Returns the lease that the store holds, if it has not run out.
    pub(super) fn live_lease(&self) -> Option<LeaseText> {
        let now = self.model.clock.now();
        self.model.look(self.job, |job| {
            let lease = job.lifecycle.lease.as_ref()?;
            (!lease.is_expired(now)).then(|| LeaseText::of(self.job, lease.id))
        })
    }

    /// Checks that a message was accepted only if its lease is the live one of the store: so no two
    /// leases are live, and none is completed after its end. An end may be repeated.
    pub(super) fn check_lease(
        &self,
        kind: Kind,
        body: &str,
        was_over: bool,
        live: Option<&LeaseText>,
        answered: &Result<Answered, WireRefusal>,
    ) {
        if answered.is_err() || kind == Kind::Log {
            return;
        }
        let about = read::lease_id(body.as_bytes());
        let is_live = live.is_some() && about.as_ref() == live;
        let is_end = matches!(kind, Kind::Complete | Kind::CancelAck);
        let is_repeated = is_end && (was_over || self.ended.borrow().contains(body));
        assert!(
            is_live || is_repeated,
            "seed {}: {kind:?} is accepted for {about:?}, and {live:?} is live",
            self.seed
        );
        if is_end {
            self.ended.borrow_mut().insert(body.to_owned());
        }
    }

    /// Checks the log of each attempt, whichever nodes got its parts: no line twice, and in order.
    pub(super) fn check_log(&self) {
        let logged = self.model.logged();
        for pair in logged.windows(2) {
            let ((_, one, earlier), (_, other, later)) = (&pair[0], &pair[1]);
            let number = |line: &str| -> (u64, u64) {
                let (step, line) = line.rsplit(' ').next().unwrap().split_once('-').unwrap();
                (step.parse().unwrap(), line.parse().unwrap())
            };
            let in_order = one < other || (one == other && number(earlier) < number(later));
            assert!(in_order, "seed {}: {logged:?}", self.seed);
        }
        let completed = self.model.state(self.job) == State::Completed;
        self.model.look(self.job, |job| {
            let last = job.attempts.last().map(|it| it.number);
            let of_last = logged
                .iter()
                .filter(|(_, attempt, _)| Some(*attempt) == last);
            let lines = of_last.count() as u64;
            assert!(!completed || lines <= 2 * LINES, "{logged:?}");
        });
    }

    /// Checks what is kept of the job.
    pub(super) fn check(&self) {
        self.model.look(self.job, |job| {
            let ends = |outcome: &str| {
                let ended = job.attempts.iter().filter(|it| it.outcome == outcome);
                ended.count()
            };
            assert!(
                ends("completed") + ends("cancelled") <= 1,
                "{:?}",
                job.attempts
            );
            let mut numbers: Vec<u32> = job.attempts.iter().map(|it| it.number).collect();
            let count = numbers.len();
            numbers.dedup();
            assert_eq!(
                numbers.len(),
                count,
                "an attempt ends once: {:?}",
                job.attempts
            );
            let reported = job
                .attempts
                .iter()
                .filter(|it| it.outcome != "lost")
                .count();
            assert!(self.reported as usize <= reported, "{:?}", job.attempts);
        });
    }
}

/// Sorts an answer as a runner does.
pub(super) fn response(kind: Kind, answer: Result<Answered, WireRefusal>) -> Response {
    let (status, body) = match answer {
        Ok(Answered::Heartbeat(ack)) => (200, serde_json::to_string(&ack).unwrap()),
        Ok(Answered::Logged(next)) => (200, format!(r#"{{"next_offset":{next}}}"#)),
        Ok(_) => (200, String::new()),
        Err(refused) => {
            let is_known = matches!(
                refused.code,
                Code::StaleLease | Code::State | Code::AlreadyComplete | Code::LogOffset
            );
            assert!(is_known, "{refused:?}");
            let body = match refused.more {
                More::NextOffset(next) => format!(r#"{{"next_offset":{next}}}"#),
                _ => "{}".to_owned(),
            };
            (refused.code.status(), body)
        }
    };
    sort(kind, status, body.as_bytes())
}
