//! The end of the job: what is reported, and until when.

use host_core::time::Time;

use super::super::exchange::{Kind, Response};
use super::super::words::{Dialect, End};
use super::{Act, Done, Session, reason};
use crate::delta::messages::read::Status;

impl Session {
    pub(super) fn finish(&mut self, now: Time, wall: &str, status: Status, text: &str) -> Vec<Act> {
        let text = match (status, self.stage.step.as_str()) {
            (Status::Succeeded, _) | (_, "") => text.to_owned(),
            (_, step) => format!("{step}: {text}"),
        };
        let (summary, artifacts, files) = self.results.report(status == Status::Succeeded, &text);
        let end = End {
            status,
            started_at: self
                .started_at
                .as_ref()
                .map_or_else(String::new, |(_, at)| at.clone()),
            finished_at: wall.to_owned(),
            artifacts,
            summary,
        };
        let kind = if status == Status::Canceled {
            Kind::CancelAck
        } else {
            Kind::Complete
        };
        let mut acts: Vec<Act> = files
            .into_iter()
            .map(|(name, text)| Act::Keep(name, text))
            .collect();
        self.end = Some((kind, end));
        self.end_at = self.log_wait(now);
        acts.extend(if self.end_at.is_some() {
            self.send_log(now)
        } else {
            self.send_end(now)
        });
        acts
    }

    pub(super) fn send_end(&mut self, now: Time) -> Option<Act> {
        let (kind, end) = self.end.as_ref()?;
        let (kind, body) = match kind {
            Kind::CancelAck => (*kind, self.speaker.cancel_ack(self.dialect, end)),
            _ => (*kind, self.speaker.complete(self.dialect, end)),
        };
        Some(self.send_main(now, kind, body))
    }

    pub(super) fn on_end_response(
        &mut self,
        now: Time,
        kind: Kind,
        response: &Response,
    ) -> Vec<Act> {
        let Some((_, end)) = &self.end else {
            return Vec::new();
        };
        let done = match response {
            Response::Accepted(_) => Done::Reported(end.status),
            Response::UnknownField if self.dialect == Dialect::Documented => {
                self.dialect = Dialect::Strict;
                return self.send_end(now).into_iter().collect();
            }
            Response::Stale => Done::Refused(format!("{kind:?} was refused: the lease is stale")),
            Response::UnknownField | Response::Refused(_) => {
                Done::Refused(format!("{kind:?} was refused{}", reason(response)))
            }
            Response::Again | Response::Logged(_) => {
                self.later(now);
                return Vec::new();
            }
        };
        self.give_up(done)
    }
}
