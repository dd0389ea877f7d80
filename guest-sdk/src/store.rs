//! What a handler asks of the host's store: jobs to enqueue.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::error::{Category, Error};

/// Why the store does not do what a handler asks, and who must act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreErrorKind {
    /// The manifest does not grant it.
    NotGranted,
    /// The request is invalid, or the host refuses it.
    InvalidRequest,
    /// A limit is reached.
    LimitReached,
    /// The host cannot do it now.
    Unavailable,
}

/// Why the store does not do what a handler asks.
///
/// `?` converts it to an [`Error`] of a category that fits: another attempt is made only if it may help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreError {
    /// Who must act.
    pub kind: StoreErrorKind,
    /// One sentence for a person.
    pub message: String,
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        let (category, kind) = match error.kind {
            StoreErrorKind::NotGranted => (Category::Configuration, "store_not_granted"),
            StoreErrorKind::InvalidRequest => (Category::UserCode, "store_invalid_request"),
            StoreErrorKind::LimitReached => (Category::Configuration, "store_limit_reached"),
            StoreErrorKind::Unavailable => (Category::Infrastructure, "store_unavailable"),
        };
        Self::new(category, kind, error.message)
    }
}

/// A job to wait for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum DependsOn {
    /// It must complete.
    Completed(String),
    /// It must end like this.
    Condition {
        /// Its id.
        job: String,
        /// How it has to end.
        when: When,
    },
}

/// How a job has to end for one that waits for it to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// It completes; otherwise the job that waits is discarded.
    Completed,
    /// It ends in any way.
    Ended,
    /// It is discarded; otherwise the job that waits is cancelled.
    Failed,
}

/// A job to enqueue. See [`Ctx::enqueue`](crate::Ctx::enqueue).
///
/// ```
/// # use guest_sdk::{Error, NewJob};
/// # fn make() -> Result<NewJob, Error> {
/// Ok(NewJob::new("send-mail").params(&["a@example.com"])?.queue("mail").priority(2))
/// # }
/// # assert_eq!(make().unwrap().priority, Some(2));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NewJob {
    /// The handler, perhaps behind the name of a runner: `python#send_email`.
    pub handler: String,
    /// The params.
    pub params: Value,
    /// The queue; `default` if none is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// 0 is the most urgent, 9 the least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// Only one job with this key may wait or run in its queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unique_key: Option<String>,
    /// The job starts so many seconds later at the earliest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_seconds: Option<f64>,
    /// The jobs that must end first; `#n` is job n (from 0) of the same call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<DependsOn>,
    /// Names below `/inputs` in its params, and the jobs it depends on whose results are there when it starts.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, String>,
    /// Other data, which the handler gets with the job.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
    /// Other fields, as `POST /api/v1/jobs` takes them.
    #[serde(flatten)]
    pub others: BTreeMap<String, Value>,
}

impl NewJob {
    /// Makes a job without params.
    pub fn new(handler: impl Into<String>) -> Self {
        Self {
            handler: handler.into(),
            ..Self::default()
        }
    }

    /// Sets the params.
    pub fn params(mut self, params: &(impl Serialize + ?Sized)) -> Result<Self, Error> {
        self.params = serde_json::to_value(params).map_err(|error| {
            let message = format!("cannot serialize the params of a job as JSON: {error}");
            Error::fatal("invalid_params_of_job", message)
        })?;
        Ok(self)
    }

    /// Sets the queue.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// Sets the priority: 0 is the most urgent, 9 the least.
    #[must_use]
    pub const fn priority(mut self, priority: u8) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Sets the unique key.
    #[must_use]
    pub fn unique_key(mut self, key: impl Into<String>) -> Self {
        self.unique_key = Some(key.into());
        self
    }

    /// Delays the job.
    #[must_use]
    pub const fn delay_seconds(mut self, seconds: f64) -> Self {
        self.delay_seconds = Some(seconds);
        self
    }

    /// Makes it wait for a job, which must complete.
    #[must_use]
    pub fn depends_on(mut self, id: impl Into<String>) -> Self {
        self.depends_on.push(DependsOn::Completed(id.into()));
        self
    }

    /// Makes it wait for a job, which must end like this.
    #[must_use]
    pub fn depends_on_when(mut self, id: impl Into<String>, when: When) -> Self {
        let job = id.into();
        self.depends_on.push(DependsOn::Condition { job, when });
        self
    }

    /// Gives it the result of a job that it depends on, of the same call (`#n`), as `/inputs/NAME` in its params.
    #[must_use]
    pub fn input(mut self, name: impl Into<String>, id: impl Into<String>) -> Self {
        self.inputs.insert(name.into(), id.into());
        self
    }

    /// Attaches data.
    #[must_use]
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.attributes.insert(name.into(), value.into());
        self
    }

    /// Sets another field, as `POST /api/v1/jobs` takes it.
    #[must_use]
    pub fn field(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.others.insert(name.into(), value.into());
        self
    }
}

#[cfg(all(test, not(target_family = "wasm")))]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::MockHost;

    #[test]
    fn a_job_is_what_the_api_takes() {
        let job = NewJob::new("row")
            .params(&[1])
            .unwrap()
            .queue("rows")
            .unique_key("a")
            .delay_seconds(0.5)
            .attribute("x", "y")
            .depends_on("#0")
            .depends_on_when("#1", When::Failed)
            .input("rows", "#0")
            .field("max_attempts", 3)
            .priority(9);
        let expected = json!({
            "handler": "row", "params": [1], "queue": "rows", "unique_key": "a", "delay_seconds": 0.5,
            "attributes": {"x": "y"}, "depends_on": ["#0", {"job": "#1", "when": "failed"}], "max_attempts": 3,
            "inputs": {"rows": "#0"}, "priority": 9
        });
        assert_eq!(serde_json::to_value(&job).unwrap(), expected);
        let bare = json!({"handler": "row", "params": null});
        assert_eq!(serde_json::to_value(NewJob::new("row")).unwrap(), bare);
    }

    #[test]
    fn the_mock_keeps_jobs_and_gives_them_ids() {
        let host = MockHost::new();
        let ctx = host.ctx();
        let [a, b] = [NewJob::new("a"), NewJob::new("b")];
        assert_eq!(
            ctx.enqueue_all(&[a.clone(), b.clone()]).unwrap(),
            ["job-1", "job-2"]
        );
        assert_eq!(ctx.enqueue_now(&b).unwrap(), "job-3");
        assert_eq!(host.enqueued(), [a, b.clone()]);
        assert_eq!(host.enqueued_now(), [b]);
    }

    #[test]
    fn a_mock_without_a_store_grants_nothing() {
        let ctx = MockHost::new().without_store().ctx();
        let error = ctx.enqueue(&NewJob::new("a")).unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::NotGranted);
        let Error::Failed(failed) = Error::from(error) else {
            panic!("it is an error");
        };
        assert_eq!(failed.category, Category::Configuration);
    }
}
