//! The orchestrator's transcripts: requests of runners over the routes, and their answers.

use host_core::id::JobId;
use host_testing::transcript::{Stage, replay_all};
use tokio::runtime::{Builder, Runtime};

use super::fixture::{Answer, Host, TIMES};
use crate::messages::lease_id::LeaseText;

#[test]
fn transcripts() {
    replay_all(
        concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/transcripts/orchestrator"
        ),
        || Table {
            host: Some(Host::start()),
            runtime: Builder::new_current_thread().enable_time().build().unwrap(),
            job: None,
            lease: "none".to_owned(),
            shown: String::new(),
        },
    );
}

struct Table {
    host: Option<Host>,
    runtime: Runtime,
    job: Option<JobId>,
    /// The lease that was granted last.
    lease: String,
    shown: String,
}

impl Table {
    fn host(&self) -> &Host {
        self.host.as_ref().unwrap()
    }

    /// Sends what a runner says.
    fn send(&self, runner: &str, path: &str, body: &str) -> Answer {
        let host = self.host();
        let job = self.job.map(|job| job.to_string()).unwrap_or_default();
        let body = body.replace("LEASE", &self.lease).replace("JOB", &job);
        self.runtime.block_on(async {
            if path != "log" {
                return host.post(path, body).await;
            }
            let (offset, text) = body.split_once(' ').unwrap();
            let text = text.replace("\\n", "\n");
            let offset = offset.parse().unwrap();
            host.log(&self.lease, runner, offset, &text).await
        })
    }

    /// Shows how the job is, if that has changed.
    fn look(&mut self) -> Option<String> {
        let (host, job) = (self.host(), self.job?);
        let shown = host.model.look(job, |job| {
            let failure = job.failure.as_ref().map(|failure| {
                let kind = failure.kind.as_str();
                format!(", {kind}: {}", failure.message)
            });
            let cancel = job.lifecycle.cancel.as_ref().map(|_| ", to be stopped");
            let result = job.result.as_ref().map(|result| format!(", {}", result.0));
            let attempts: String = job
                .attempts
                .iter()
                .map(|it| {
                    let (number, executor, outcome) = (it.number, &it.executor, &it.outcome);
                    format!("; attempt {number} of {executor} {outcome}")
                })
                .collect::<Vec<_>>()
                .concat();
            format!(
                "host< {}{}{}{}{attempts}",
                job.lifecycle.state.as_str(),
                cancel.unwrap_or_default(),
                failure.unwrap_or_default(),
                result.unwrap_or_default(),
            )
        });
        (shown != self.shown).then(|| {
            self.shown.clone_from(&shown);
            shown
        })
    }
}

impl Stage for Table {
    fn play(&mut self, line: &str) -> Vec<String> {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        let mut lines = Vec::new();
        match words[..] {
            ["enqueue" | "enqueue-long", ..] => {
                let (verb, params) = line.split_once(' ').unwrap();
                let mut policy = TIMES.policy();
                if verb == "enqueue-long" {
                    policy.timeout_ms = Some(3_600_000);
                }
                let handler = ("ci", "unit-tests");
                let job = self.host().model.enqueue(handler, params, policy, &[]);
                self.job = Some(job);
                self.shown.clear();
            }
            ["cancel"] => {
                let (host, job) = (self.host(), self.job.unwrap());
                host.model.cancel(job, None).unwrap();
            }
            ["time", ms] => self.host().model.advance(ms.parse().unwrap()),
            ["restart"] => self.host = self.host.take().map(Host::restart),
            ["peer>", runner, path, body] => {
                let answer = self.send(runner, path, body);
                if let Some(lease) = answer.body["lease_id"].as_str()
                    && LeaseText(lease.to_owned()).parse().is_some()
                {
                    lease.clone_into(&mut self.lease);
                }
                lines.push(format!("peer< {} {}", answer.status, answer.text));
            }
            _ => panic!("cannot read {line:?}"),
        }
        lines.extend(self.look());
        lines
    }
}
