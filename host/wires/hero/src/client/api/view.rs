//! A Hero job as the API shows it and commands read it. Fields of its hash that are not as documented are
//! left out.

use std::collections::BTreeMap;

use host_core::time::Time;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::client::{JobView, is_stale};

/// A job in Redis, for a worker of a Hero dispatcher. Lists leave out what is large.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = HeroJob)]
pub(crate) struct HeroJobView {
    /// Its id.
    pub(crate) id: String,
    /// The worker it is for.
    #[serde(default)]
    #[schema(required = true)]
    pub(crate) worker_id: String,
    /// dispatched, started, finished or error; `unknown` if the hash has none.
    #[serde(default)]
    #[schema(required = true)]
    pub(crate) status: String,
    /// Whether it was started and its worker has been silent for longer than its time limit allows.
    #[serde(default)]
    #[schema(required = true)]
    pub(crate) stale: bool,
    /// The jobs that must finish before it is queued, with their status if a single job is shown.
    #[serde(default)]
    #[schema(required = true)]
    pub(crate) waits_for: Vec<WaitsFor>,
    /// The deployed handler that it names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) handler: Option<String>,
    /// The language of its script, where it names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) script_type: Option<String>,
    /// The sender.
    #[serde(default)]
    #[schema(required = true)]
    pub(crate) caller_id: String,
    /// In which context.
    #[serde(default)]
    #[schema(required = true)]
    pub(crate) context_id: String,
    /// The time limit of an attempt.
    pub(crate) timeout_seconds: Option<f64>,
    /// Further attempts after a failure.
    pub(crate) retries: Option<u32>,
    /// Whether it may run beside others of its context.
    pub(crate) concurrent: Option<bool>,
    /// When it was submitted, as its hash says.
    pub(crate) created_at: Option<String>,
    /// When it last changed, as its hash says.
    pub(crate) updated_at: Option<String>,
    #[serde(flatten)]
    pub(crate) rest: Option<Rest>,
}

/// A job that another one waits for.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct WaitsFor {
    /// Its id.
    pub(crate) id: String,
    /// Its status; `missing` if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<String>,
}

/// What is shown of a single job alone.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = HeroJobRest)]
pub(crate) struct Rest {
    /// Its script, or the params of its handler.
    pub(crate) script: Option<String>,
    /// Its log file.
    pub(crate) log_path: Option<String>,
    /// Its environment variables.
    #[serde(default)]
    #[schema(required = true)]
    pub(crate) env_vars: BTreeMap<String, String>,
    /// The jobs that must finish before it.
    #[serde(default)]
    #[schema(required = true)]
    pub(crate) dependencies: Vec<String>,
    /// The jobs that wait for it, as far as their senders recorded that.
    #[serde(default)]
    #[schema(required = true)]
    pub(crate) dependents: Vec<String>,
    /// What it has returned.
    pub(crate) output: Option<String>,
    /// Why it has failed.
    pub(crate) error: Option<String>,
    /// Fields that are too long to be shown, and their lengths in bytes.
    #[serde(default)]
    #[schema(required = true)]
    pub(crate) left_out: BTreeMap<String, u64>,
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
        let left_out = job.left_out.iter();
        let rest = Rest {
            script: text("script"),
            log_path: text("log_path"),
            env_vars: serde_json::from_str(env).unwrap_or_default(),
            dependencies: job.depends_on().into_iter().collect(),
            dependents: job.ids("dependents").into_iter().collect(),
            output: text("output"),
            error: text("error"),
            left_out: left_out
                .map(|(field, bytes)| (field.to_string(), *bytes))
                .collect(),
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
