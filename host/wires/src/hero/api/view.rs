//! A Hero job as requests are shown it. What its hash says in another way than documented is left
//! out.

use std::collections::BTreeMap;

use host_core::time::Time;
use serde::Serialize;
use utoipa::ToSchema;

use crate::hero::client::{JobView, is_stale};

/// A job in Redis, for a worker of a Hero dispatcher. Lists leave out what is large.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = HeroJob)]
pub(super) struct HeroJobView {
    /// Its id.
    id: String,
    /// The worker it is for.
    worker_id: String,
    /// dispatched, started, finished or error; `unknown` where the hash says none.
    status: String,
    /// Whether it was started and its worker has been silent for longer than its time limit allows.
    stale: bool,
    /// The jobs that it is not queued before, with their status where a single job is shown.
    waits_for: Vec<WaitsFor>,
    /// The deployed handler that it names.
    #[serde(skip_serializing_if = "Option::is_none")]
    handler: Option<String>,
    /// The language of its script, where it names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    script_type: Option<String>,
    /// For whom it runs.
    caller_id: String,
    /// In which context.
    context_id: String,
    /// The time limit of an attempt.
    timeout_seconds: Option<f64>,
    /// Further attempts after a failure.
    retries: Option<u32>,
    /// Whether it may run beside others of its context.
    concurrent: Option<bool>,
    /// When it was submitted, as its client says.
    created_at: Option<String>,
    /// When it last changed, as whoever changed it says.
    updated_at: Option<String>,
    #[serde(flatten)]
    rest: Option<Rest>,
}

/// A job that another one waits for.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct WaitsFor {
    /// Its id.
    id: String,
    /// How it is; `missing` if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<String>,
}

/// What is shown of a single job alone.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = HeroJobRest)]
pub(super) struct Rest {
    /// Its script, or the params of its handler.
    script: Option<String>,
    /// Its log file.
    log_path: Option<String>,
    /// Its environment variables.
    env_vars: BTreeMap<String, String>,
    /// The jobs that must finish before it.
    dependencies: Vec<String>,
    /// The jobs that wait for it, as far as their clients say.
    dependents: Vec<String>,
    /// What it has returned.
    output: Option<String>,
    /// Why it has failed.
    error: Option<String>,
    /// Fields that are too long to be shown, and their lengths in bytes.
    left_out: BTreeMap<&'static str, u64>,
}

impl HeroJobView {
    /// Shows a job as in a list.
    pub(super) fn summary(job: &JobView, now: Time) -> Self {
        let text = |field| job.get(field).map(str::to_owned);
        let waiting = job.waits_for().filter(|_| job.status() == "dispatched");
        let waits_for = |id| WaitsFor { id, status: None };
        Self {
            id: job.id.clone(),
            worker_id: text("worker_id").unwrap_or_default(),
            status: job.status().to_owned(),
            stale: is_stale(job, now),
            waits_for: waiting
                .unwrap_or_default()
                .into_iter()
                .map(waits_for)
                .collect(),
            handler: text("handler"),
            script_type: text("script_type"),
            caller_id: text("caller_id").unwrap_or_default(),
            context_id: text("context_id").unwrap_or_default(),
            timeout_seconds: job.get("timeout").and_then(|text| text.parse().ok()),
            retries: job.get("retries").and_then(|text| text.parse().ok()),
            concurrent: job.get("concurrent").and_then(|text| text.parse().ok()),
            created_at: text("created_at"),
            updated_at: text("updated_at"),
            rest: None,
        }
    }

    /// Shows all of a job; `status` tells how the jobs are that it waits for.
    pub(super) fn detail(job: &JobView, status: &BTreeMap<String, String>, now: Time) -> Self {
        let text = |field| job.get(field).map(str::to_owned);
        let env = job.get("env_vars").unwrap_or_default();
        let rest = Rest {
            script: text("script"),
            log_path: text("log_path"),
            env_vars: serde_json::from_str(env).unwrap_or_default(),
            dependencies: job.depends_on().into_iter().collect(),
            dependents: job.ids("dependents").into_iter().collect(),
            output: text("output"),
            error: text("error"),
            left_out: job.left_out.clone(),
        };
        let mut view = Self::summary(job, now);
        for other in &mut view.waits_for {
            let is = status.get(&other.id).map_or("missing", String::as_str);
            other.status = Some(is.to_owned());
        }
        Self {
            rest: Some(rest),
            ..view
        }
    }
}
