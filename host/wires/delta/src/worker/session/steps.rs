//! The steps of the job, one guest after the other.

use host_core::outcome::Outcome;
use host_core::port::{Answer, ForeignJob, Tag};
use host_core::time::Time;

use super::super::results::failed_text;
use super::{Actions, Effect, LeaseSession, Why};
use crate::NAME;
use crate::messages::read::Status;

impl LeaseSession {
    /// Starts the next step, or ends the job.
    pub(super) fn next_step(&mut self, now: Time, todo: &mut Actions) {
        let at = self.results.len();
        if let Some(fault) = &self.lease.fault {
            let fault = fault.clone();
            return self.finish(now, Status::Failed, &fault, todo);
        }
        let Some(step) = self.lease.steps.get(at) else {
            if at == 0 {
                return self.finish(now, Status::Failed, "the job has no steps", todo);
            }
            return self.finish(now, Status::Succeeded, "", todo);
        };
        self.stage.step.clone_from(&step.name);
        self.stage.step_index = at;
        self.stage.progress = None;
        let (handler, params) = match step.run.clone() {
            Ok(run) => run,
            Err(why) => return self.finish(now, Status::Failed, &why, todo),
        };
        let tag = Tag(at as u64);
        let mut job = ForeignJob::new(NAME, &self.lease.job_id, handler, params);
        job.request_id = format!("{}-{at}", self.lease.job_id);
        job.worker_id = Some(self.speaker.runner.clone());
        job.env.clone_from(&self.lease.env);
        job.wants_log = true;
        let run_id = self.lease.run_id.clone();
        job.attributes
            .extend(run_id.map(|id| ("delta.run_id".to_owned(), id)));
        // The orchestrator counts from the grant: a late start leaves less time.
        let max_runtime_ms = self.lease.max_runtime_ms;
        job.deadline = max_runtime_ms.map(|most| self.received_at.plus_ms(most));
        self.guest = Some(tag);
        todo.effect(Effect::Start(tag, Box::new(job)));
    }

    pub(super) fn on_guest(&mut self, now: Time, tag: Tag, answer: Answer, todo: &mut Actions) {
        if self.guest != Some(tag) {
            return;
        }
        match answer {
            Answer::Began => {}
            Answer::Progressed(progress) => self.stage.progress = Some(progress),
            Answer::Logged { started_at, lines } if self.mode.is_network => {
                self.wrote(now, started_at, &lines, todo);
            }
            Answer::Logged { started_at, lines } => todo.effect(Effect::Log(started_at, lines)),
            Answer::Busy => {
                let busy = (Status::Failed, "this runner has no room".to_owned());
                self.ended(now, Err(busy), todo);
            }
            Answer::Ended(Outcome::Completed { result }, _) => {
                let result = result.map_or("null".to_owned(), |it| it.0);
                self.ended(now, Ok(result), todo);
            }
            Answer::Ended(outcome, _) => self.ended(now, Err(failed_text(outcome)), todo),
        }
    }

    fn ended(&mut self, now: Time, ended: Result<String, (Status, String)>, todo: &mut Actions) {
        self.guest = None;
        if let Some(Why::Over(done)) = self.stop.take_if(|why| matches!(why, Why::Over(_))) {
            return self.give_up(done, todo);
        }
        match ended {
            Ok(result) => {
                self.results.push(result);
                let is_last = self.results.len() == self.lease.steps.len();
                if self.stop.is_some() && !is_last {
                    return self.finish(now, Status::Canceled, "stopped between two steps", todo);
                }
                self.next_step(now, todo);
            }
            Err((_, text)) if self.stop.is_some() => {
                self.finish(now, Status::Canceled, &text, todo);
            }
            Err((status, text)) => self.finish(now, status, &text, todo),
        }
    }
}
