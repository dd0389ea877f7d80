//! Submitting Hero jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use host_core::json::JsonText;
use host_core::seconds::Seconds;
use host_http::json;
use host_http::problem::{Problem, kinds};
use host_runtime::ids;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::problems::HERO_REDIS_AWAY;
use super::{Shared, hero, path, wall};
use crate::client::Submitted;
use crate::client::live::ClientError;
use crate::job::new::{CALLER, NewJob, Task};

/// The largest body of a job, in bytes.
const JOB_BYTES_MAX: usize = 8 << 20;

/// The time limit of a job that names none.
const TIMEOUT: Seconds = Seconds { ms: 30_000 };

/// The context of jobs that name none.
const CONTEXT: &str = "default";

/// A job for a worker of a Hero dispatcher: a script, or a handler that is deployed there.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewHeroJob {
    /// A UUID that no other job has; a new one if absent. Sent again with the same id, a request
    /// changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
    /// The worker it is for.
    pub(crate) worker_id: String,
    /// The script, in Rhai or HeroScript.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) script: Option<String>,
    /// The language of the script: rhai or heroscript; detected by the worker if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) script_type: Option<String>,
    /// A deployed handler, in place of a script.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) handler: Option<String>,
    /// The handler's params; `{}` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub(crate) params: Option<Box<RawValue>>,
    /// The time limit of an attempt, up to a week; workers get whole seconds, rounded up. 30 if
    /// absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>, exclusive_minimum = 0, maximum = 604_800)]
    pub(crate) timeout_seconds: Option<Seconds>,
    /// Further attempts after a failure; 0 if absent.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schema(maximum = 1_000)]
    pub(crate) retries: u32,
    /// Ids of jobs that must finish before it is queued.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) dependencies: BTreeSet<String>,
    /// In which context; `default` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) context_id: Option<String>,
    /// Whether it may run beside others of its context; true if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) concurrent: Option<bool>,
    /// The sender; `host` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) caller_id: Option<String>,
    /// Environment variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) env_vars: BTreeMap<String, String>,
    /// A log file below the configured folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) log_path: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The result of a submission.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = SubmittedHeroJob)]
pub(crate) struct SubmittedView {
    /// The job's id.
    pub(crate) id: String,
    /// The worker it is for.
    #[serde(default)]
    #[schema(required = true)]
    pub(crate) worker_id: String,
    /// Whether it existed already.
    #[serde(default)]
    #[schema(required = true)]
    pub(crate) existing: bool,
    /// The jobs that must finish before it is queued.
    #[serde(default)]
    #[schema(required = true)]
    pub(crate) waits_for: Vec<String>,
}

/// Stores a Hero job and queues it for its worker, once the jobs it depends on have finished. It is
/// answered when Redis has confirmed it.
#[utoipa::path(
    post, path = path::JOBS, tag = "hero", request_body = NewHeroJob,
    responses(
        (status = 201, body = SubmittedView, description = "Stored"),
        (status = 200, body = SubmittedView, description = "A job with this id already exists and is unchanged"),
    )
)]
pub(super) async fn submit(
    State(shared): State<Shared>,
    request: Request,
) -> Result<(StatusCode, Json<SubmittedView>), Problem> {
    let (parts, body) = request.into_parts();
    let bodies = &shared.ports.bodies;
    let read = bodies.read(&parts, body, JOB_BYTES_MAX).await?;
    let hero = hero(&shared)?;
    let mut job: NewHeroJob = json::read_object(&read.bytes)?;
    let given = job.id.take();
    let is_given = given.is_some();
    let id = given.unwrap_or_else(ids::uuid);
    let job = job.into_job(id)?;
    let log_root = hero.log_dir.as_deref().and_then(Path::to_str);
    let submitted = hero.client.submit(&job, is_given, log_root, wall(&shared));
    let id = job.id.clone();
    let submitted = submitted.await.map_err(|error| match error {
        ClientError::Away(why) => {
            let detail =
                format!("{why}; job {id} may or may not be stored: send it again with this id");
            Problem::new(&HERO_REDIS_AWAY, detail)
        }
        error => error.into(),
    })?;
    // No other client has an id that we have made: it is ours that came through at the second try.
    let existing = submitted == Submitted::Exists && is_given;
    let status = if existing {
        StatusCode::OK
    } else {
        StatusCode::CREATED
    };
    let waits_for = match submitted {
        Submitted::Waits(others) => others,
        Submitted::Queued | Submitted::Exists => Vec::new(),
    };
    let view = SubmittedView {
        id,
        worker_id: job.worker_id,
        existing,
        waits_for,
    };
    Ok((status, Json(view)))
}

impl NewHeroJob {
    fn into_job(self, id: String) -> Result<NewJob, Problem> {
        let refused = |detail| Err(Problem::new(&kinds::INVALID_REQUEST, detail));
        let task = match (self.script, self.handler) {
            (Some(script), None) if self.params.is_none() => Task::Script(script),
            (None, Some(name)) if self.script_type.is_none() => {
                let text = self
                    .params
                    .map(|params| String::from(Box::<str>::from(params)));
                let params = JsonText(text.unwrap_or_else(|| "{}".to_owned()));
                Task::Handler { name, params }
            }
            (Some(_), Some(_)) => return refused("script, handler: expected only one of them"),
            (None, None) => return refused("script, handler: one of them is required"),
            (Some(_), None) => return refused("params: only a handler takes params"),
            (None, Some(_)) => return refused("script_type: only a script has a language"),
        };
        let timeout = self.timeout_seconds.unwrap_or(TIMEOUT);
        Ok(NewJob {
            id,
            worker_id: self.worker_id,
            task,
            script_type: self.script_type,
            caller_id: self.caller_id.unwrap_or_else(|| CALLER.to_owned()),
            context_id: self.context_id.unwrap_or_else(|| CONTEXT.to_owned()),
            timeout_seconds: timeout.ms.div_ceil(1_000),
            retries: self.retries,
            concurrent: self.concurrent.unwrap_or(true),
            log_path: self.log_path,
            env: self.env_vars,
            dependencies: self.dependencies,
            attributes: BTreeMap::new(),
        })
    }
}
