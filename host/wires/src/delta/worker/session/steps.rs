//! The steps of the job, one guest after the other.

use host_core::outcome::Outcome;
use host_core::port::{Answer, ForeignJob, Tag};
use host_core::time::Time;

use super::super::results::failed_text;
use super::{Act, Session, Why};
use crate::delta::NAME;
use crate::delta::messages::read::Status;

impl Session {
    /// Starts the next step, or ends the job.
    pub(super) fn next_step(&mut self, now: Time, wall: &str) -> Vec<Act> {
        let at = self.results.len();
        let Some(step) = self.lease.steps.get(at) else {
            let status = if at == 0 {
                Status::Failed
            } else {
                Status::Succeeded
            };
            let text = if at == 0 { "the job has no steps" } else { "" };
            return self.finish(now, wall, status, text);
        };
        self.stage.step.clone_from(&step.name);
        self.stage.step_index = at;
        self.stage.progress = None;
        let (handler, params) = match &step.run {
            Ok((handler, params)) => (handler.clone(), params.clone()),
            Err(why) => {
                let text = why.clone();
                return self.finish(now, wall, Status::Failed, &text);
            }
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
        job.deadline = self
            .lease
            .max_runtime_ms
            .zip(self.started_at.as_ref())
            .map(|(most, (began, _))| began.plus_ms(most));
        self.guest = Some(tag);
        vec![Act::Start(tag, Box::new(job))]
    }

    /// Takes what a guest says.
    pub(in super::super) fn on_guest(
        &mut self,
        now: Time,
        wall: &str,
        tag: Tag,
        answer: Answer,
    ) -> Vec<Act> {
        if self.guest != Some(tag) {
            return Vec::new();
        }
        match answer {
            Answer::Progressed(progress) => {
                self.stage.progress = Some(progress);
                Vec::new()
            }
            Answer::Logged { started_at, lines } if self.is_network => {
                self.wrote(now, started_at, &lines)
            }
            Answer::Logged { started_at, lines } => vec![Act::Log(started_at, lines)],
            Answer::Began => Vec::new(),
            Answer::Busy => {
                self.guest = None;
                self.ended(
                    now,
                    wall,
                    Err((Status::Failed, "this runner has no room".to_owned())),
                )
            }
            Answer::Ended(outcome, _) => {
                self.guest = None;
                let ended = match outcome {
                    Outcome::Completed { result } => {
                        Ok(result.map_or("null".to_owned(), |it| it.0))
                    }
                    other => Err(failed_text(other)),
                };
                self.ended(now, wall, ended)
            }
        }
    }

    fn ended(
        &mut self,
        now: Time,
        wall: &str,
        ended: Result<String, (Status, String)>,
    ) -> Vec<Act> {
        if let Some(Why::Over(done)) = self.stop.take_if(|why| matches!(why, Why::Over(_))) {
            self.is_done = true;
            return vec![Act::Done(done)];
        }
        match ended {
            Ok(result) => {
                self.results.push(result);
                let is_last = self.results.len() == self.lease.steps.len();
                if self.stop.is_some() && !is_last {
                    return self.finish(now, wall, Status::Canceled, "stopped between two steps");
                }
                self.next_step(now, wall)
            }
            Err((_, text)) if self.stop.is_some() => {
                self.finish(now, wall, Status::Canceled, &text)
            }
            Err((status, text)) => self.finish(now, wall, status, &text),
        }
    }
}
