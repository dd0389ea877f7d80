//! A job as a request writes it, and what becomes of it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Not;

use host_core::job::On;
use host_core::json::Pairs;
use host_core::seconds::Seconds;
use host_engine::job::Enqueued;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::depends_on::DependsOnBody;
use crate::webhook::NotifyBody;
use crate::words::{JobState, UniqueOnConflict};

/// A job to enqueue.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = NewJob)]
#[serde(deny_unknown_fields)]
pub struct NewJobBody {
    /// The handler that executes it; `python#send_email` is one of a foreign runner.
    pub handler: String,
    /// What the handler is called with; `null` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub params: Option<Box<RawValue>>,
    /// The queue it waits in; `default` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// 0 (first) to 9; 5 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u8>, maximum = 9)]
    pub priority: Option<i64>,
    /// Not before this instant (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_at: Option<String>,
    /// Not before this many seconds from now; excludes `run_at`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>, minimum = 0, maximum = 31_536_000)]
    pub delay_seconds: Option<Seconds>,
    /// No attempt after this instant (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// The most attempts, at least 1; if absent, the handler's, which is 20 unless its manifest says otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u32>, minimum = 1)]
    pub max_attempts: Option<i64>,
    /// The longest an attempt may take; the handler's limit if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>, exclusive_minimum = 0, maximum = 31_536_000)]
    pub timeout_seconds: Option<Seconds>,
    /// How long it is kept after it has ended, at least 1; if absent, as its queue says, else its
    /// handler, else 604800 (7 days).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>, minimum = 1, maximum = 31_536_000)]
    pub retention_seconds: Option<Seconds>,
    /// How long it is kept if it is discarded, at least 1; if absent everywhere, as long as others.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>, minimum = 1, maximum = 31_536_000)]
    pub retention_discarded_seconds: Option<Seconds>,
    /// If a job of the queue has this key and has not ended, it is returned instead. Short for
    /// `unique` with the scope `active`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unique_key: Option<String>,
    /// A key with a scope; excludes `unique_key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unique: Option<UniqueBody>,
    /// The jobs that must end first: each an id, or `#n` for entry n of the same array, if it must complete;
    /// `{"job": ID, "when": "ended"}` if it may end in any way, and `"failed"` if it must be discarded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 1_000)]
    pub depends_on: Vec<DependsOnBody>,
    /// Results that its params get below `/inputs`: names, and the jobs of `depends_on` that return them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, String>,
    /// Files that its handler reads: names, and for each the id of an upload, or `JOB/NAME` for an artifact of a job of
    /// `depends_on`. At most 100.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// The batch that counts it: the id of one that is open or that of the job whose handler enqueues it; `#n` for the one
    /// that entry n of the same array makes; or an object: a batch that it makes, as its first job. That batch has the id
    /// of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<JobBatchBody>,
    /// The receiver that is notified when it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notify: Option<NotifyBody>,
    /// W3C trace context.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<std::collections::BTreeMap<String, String>>)]
    pub trace_context: Option<Pairs>,
    /// Other values that the handler sees.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<std::collections::BTreeMap<String, String>>)]
    pub attributes: Option<Pairs>,
}

impl NewJobBody {
    /// Returns a field that a job cannot have if it is enqueued later, perhaps more than once.
    pub fn unfit_for_later(&self) -> Option<&'static str> {
        let fields = [
            ("run_at", self.run_at.is_some()),
            ("delay_seconds", self.delay_seconds.is_some()),
            ("deadline", self.deadline.is_some()),
            ("depends_on", !self.depends_on.is_empty()),
            ("inputs", !self.inputs.is_empty()),
            ("files", !self.files.is_empty()),
            ("unique_key", self.unique_key.is_some()),
            ("unique", self.unique.is_some()),
            ("batch", matches!(self.batch, Some(JobBatchBody::Id(_)))),
        ];
        let given = fields.into_iter().find(|(_, fields)| *fields);
        given.map(|(field, _)| field)
    }
}

/// The batch of a job.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = JobBatch)]
#[serde(untagged)]
pub enum JobBatchBody {
    /// One that there is, or `#n` for the one that entry n of the same array makes.
    Id(String),
    /// One that the job makes.
    New(Box<BatchPlanBody>),
}

/// A batch that a job makes when it is enqueued.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = BatchPlan)]
#[serde(deny_unknown_fields)]
pub struct BatchPlanBody {
    /// What to call it: 1 to 100 characters. Names need not differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Enqueued when all jobs have completed. Callbacks are called with `{batch, callback, counts, failed}`, and have no
    /// params of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(no_recursion)]
    pub on_success: Option<NewJobBody>,
    /// Enqueued when all jobs have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(no_recursion)]
    pub on_end: Option<NewJobBody>,
    /// Enqueued when the first job is discarded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(no_recursion)]
    pub on_first_failure: Option<NewJobBody>,
    /// The receivers that are notified when it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notify: Option<NotifyBody>,
    /// Whether jobs may be added until it is closed, for at most 7 days.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub open: bool,
    /// How long it is kept after it has ended, at least 1; 604800 (7 days) if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>, minimum = 1, maximum = 31_536_000)]
    pub retention_seconds: Option<Seconds>,
}

impl BatchPlanBody {
    /// Returns the callbacks, in the order in which they are enqueued.
    pub fn callbacks(&self) -> impl Iterator<Item = (On, &NewJobBody)> {
        let all = [
            (On::FirstFailure, &self.on_first_failure),
            (On::Success, &self.on_success),
            (On::End, &self.on_end),
        ];
        all.into_iter()
            .filter_map(|(on, job)| Some((on, job.as_ref()?)))
    }

    /// Refuses a callback with a field that it cannot have.
    pub fn check_callbacks(&self) -> Result<(), String> {
        for (on, callback) in self.callbacks() {
            let given = [
                ("params", callback.params.is_some()),
                ("batch", callback.batch.is_some()),
            ];
            let own = given.into_iter().find(|(_, is_given)| *is_given);
            let field = own.map(|(field, _)| field);
            if let Some(field) = field.or(callback.unfit_for_later()) {
                let on = on.as_str();
                return Err(format!("{on}.{field}: a callback cannot have it"));
            }
        }
        Ok(())
    }
}

impl JobBatchBody {
    /// Returns the id, or the reference.
    pub fn id(&self) -> Option<&str> {
        match self {
            Self::Id(id) => Some(id),
            Self::New(_) => None,
        }
    }

    /// Returns the batch that the job makes.
    pub fn plan(&self) -> Option<&BatchPlanBody> {
        match self {
            Self::New(plan) => Some(plan),
            Self::Id(_) => None,
        }
    }
}

impl From<String> for JobBatchBody {
    fn from(id: String) -> Self {
        Self::Id(id)
    }
}

impl<'de> Deserialize<'de> for JobBatchBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JobBatchVisitor)
    }
}

/// The derived reader would not say what is wrong with an object.
struct JobBatchVisitor;

impl<'de> Visitor<'de> for JobBatchVisitor {
    type Value = JobBatchBody;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the id of a batch, or an object with a batch to make")
    }

    fn visit_str<E: Error>(self, id: &str) -> Result<JobBatchBody, E> {
        Ok(JobBatchBody::Id(id.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<JobBatchBody, A::Error> {
        let plan = BatchPlanBody::deserialize(MapAccessDeserializer::new(map))?;
        Ok(JobBatchBody::New(Box::new(plan)))
    }
}

/// A key that one job of a queue has.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Unique)]
#[serde(deny_unknown_fields)]
pub struct UniqueBody {
    /// The key, 1 to 256 bytes.
    #[schema(min_length = 1, max_length = 256)]
    pub key: String,
    /// Which earlier job with the key counts as this one; `active` if absent.
    #[serde(default, deserialize_with = "read_scope")]
    pub scope: ScopeBody,
    /// What becomes of that job if none of its attempts has begun; `keep` if absent. `replace`: it gets the params of this
    /// one. `push_back`: that, and it starts when this one would. Only a job of the same handler and principal changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<UniqueOnConflict>)]
    pub on_conflict: Option<OnConflictBody>,
    /// With `push_back`: later jobs with the key delay this one no longer than this after it was enqueued.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>, minimum = 0, maximum = 31_536_000)]
    pub max_delay_seconds: Option<Seconds>,
}

impl UniqueBody {
    /// A key that a job has until it has ended.
    pub const fn active(key: String) -> Self {
        Self {
            key,
            scope: ScopeBody::Active,
            on_conflict: None,
            max_delay_seconds: None,
        }
    }
}

/// What becomes of an earlier job with the same unique key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnConflictBody {
    /// It stays as it is.
    Keep,
    /// It gets the params of the new one.
    Replace,
    /// That, and it starts when the new one would.
    PushBack,
}

/// Which earlier job with the same key counts as the new one.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = UniqueScope)]
#[serde(rename_all = "snake_case")]
pub enum ScopeBody {
    /// One that has not ended.
    #[default]
    Active,
    /// Any, if the newest with this key is still kept.
    Retained,
    /// One that has not ended or was enqueued within this many seconds, as long as it is kept: its retention
    /// should not end sooner.
    Seconds(f64),
}

/// The body of an enqueue: one job, or an array of jobs.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = NewJobs)]
#[serde(untagged)]
#[expect(clippy::large_enum_variant, reason = "one job is the usual body")]
pub enum NewJobsBody {
    One(NewJobBody),
    Several(Vec<NewJobBody>),
}

/// The media type of a body with a job in each line.
pub const LINES_MEDIA_TYPE: &str = "application/x-ndjson";

/// The longest line of such a body, in bytes.
pub const LINE_BYTES_MAX: usize = 1 << 20;

/// How many lines are answered together.
pub const LINES_AT_ONCE: usize = 256;

/// The result for one job of a request.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Accepted)]
pub struct AcceptedView {
    /// The job that answers the request: the new one, or the one that has its unique key.
    pub id: String,
    /// That job's state.
    #[serde(default)]
    #[schema(value_type = JobState, required = true)]
    pub state: String,
    /// Whether it was there before.
    #[serde(default)]
    #[schema(required = true)]
    pub existing: bool,
    /// Present and true if it was there before with other params than these, and the caller may see the params of that job.
    #[serde(default, skip_serializing_if = "Not::not")]
    #[schema(value_type = Option<bool>)]
    pub existing_params_differ: bool,
}

/// The answer to an enqueue: that for one job, or an array for an array.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = AcceptedJobs)]
#[serde(untagged)]
pub enum AcceptedJobsView {
    One(AcceptedView),
    Several(Vec<AcceptedView>),
}

impl From<Enqueued> for AcceptedView {
    fn from(enqueued: Enqueued) -> Self {
        Self {
            id: enqueued.id.to_string(),
            state: enqueued.state.as_str().to_owned(),
            existing: enqueued.existing,
            existing_params_differ: enqueued.params_differ,
        }
    }
}

/// Reads a scope. The derived reader would not say what a scope may be.
fn read_scope<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ScopeBody, D::Error> {
    deserializer.deserialize_any(ScopeVisitor)
}

struct ScopeVisitor;

impl<'de> Visitor<'de> for ScopeVisitor {
    type Value = ScopeBody;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(r#"`active`, `retained` or {"seconds": N}"#)
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<ScopeBody, E> {
        match word {
            "active" => Ok(ScopeBody::Active),
            "retained" => Ok(ScopeBody::Retained),
            other => Err(E::invalid_value(serde::de::Unexpected::Str(other), &self)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ScopeBody, A::Error> {
        let mut seconds = None;
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            if key != "seconds" {
                return Err(A::Error::unknown_field(&key, &["seconds"]));
            }
            seconds = Some(map.next_value()?);
        }
        let missing = || A::Error::missing_field("seconds");
        seconds.map(ScopeBody::Seconds).ok_or_else(missing)
    }
}
