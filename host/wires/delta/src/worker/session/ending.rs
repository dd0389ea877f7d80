//! The end of the job: what is reported, and until when.

use host_core::time::Time;

use super::super::exchange::{Kind, Response};
use super::super::words::{Dialect, End};
use super::{Actions, Done, Effect, LeaseSession, reason};
use crate::messages::read::{Artifact, Status};

impl LeaseSession {
    pub(super) fn finish(&mut self, now: Time, status: Status, text: &str, todo: &mut Actions) {
        let text = match (status, self.stage.step.as_str()) {
            (Status::Succeeded, _) | (_, "") => text.to_owned(),
            (_, step) => format!("{step}: {text}"),
        };
        let (summary, mut artifacts, files) =
            self.results.report(status == Status::Succeeded, &text);
        if let (true, Some(uri)) = (self.upload.has_text(), &self.lease.log_uri) {
            artifacts.push(Artifact {
                r#type: "log".to_owned(),
                uri: uri.clone(),
            });
        }
        for (path, text) in files {
            todo.effect(Effect::Keep(path, text));
        }
        let started_at = self.started_at.as_ref().map(|(_, wall)| wall.clone());
        self.end = Some(End {
            status,
            started_at: started_at.unwrap_or_default(),
            finished_at: self.wall(now),
            artifacts,
            summary,
        });
        self.next_beat = now.plus_ms(self.lease.interval_ms);
        self.end_at = self.log_wait(now);
        if self.end_at.is_some() {
            self.send_log(now, todo);
        } else {
            self.send_end(todo);
        }
    }

    pub(super) fn send_end(&mut self, todo: &mut Actions) {
        if let Some(end) = &self.end {
            let (kind, body) = self.speaker.end(self.mode.dialect, end);
            self.send_main(kind, body, todo);
        }
    }

    /// Reports that the job is cancelled instead of how it ended, which the orchestrator does not accept any more.
    pub(super) fn cancel_instead(&mut self, todo: &mut Actions) {
        if let Some(end) = self
            .end
            .as_mut()
            .filter(|end| end.status != Status::Canceled)
        {
            end.status = Status::Canceled;
            self.send_end(todo);
        }
    }

    pub(super) fn on_end_response(
        &mut self,
        now: Time,
        kind: Kind,
        response: &Response,
        todo: &mut Actions,
    ) {
        let Some(end) = &self.end else {
            return;
        };
        let done = match response {
            Response::Accepted(_) => Done::Reported(end.status),
            Response::UnknownField if self.mode.dialect == Dialect::Documented => {
                self.mode.dialect = Dialect::Strict;
                return self.send_end(todo);
            }
            // The answer to the first one was lost, and the lease has most likely ended with it.
            Response::Stale if self.main.as_ref().is_some_and(|it| it.may_be_known) => {
                Done::Unanswered(end.status)
            }
            Response::Stale => Done::Refused(format!("{kind:?} was refused: the lease is stale")),
            Response::UnknownField | Response::Refused(_) => {
                Done::Refused(format!("{kind:?} was refused{}", reason(response)))
            }
            Response::Again | Response::Logged(_) => return self.later(now),
        };
        self.give_up(done, todo);
    }
}
