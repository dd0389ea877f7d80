//! The context of a running handler: its job and the services of the host.

use std::fmt::Display;
use std::rc::Rc;
use std::time::Duration;

use serde_json::Value;

use crate::artifacts::Artifacts;
use crate::database::Sql;
use crate::error::Error;
use crate::http::Http;
use crate::limits::{FIELD_NAME_BYTES_MAX, FIELDS_MAX, LINE_BYTES_MAX, check_name, cut};
use crate::log::LogFields;
use crate::services::{Level, Services};
use crate::state::State;
use crate::store::{NewJob, StoreError, StoreErrorKind};

/// The job that the handler executes, and the current attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// Identifies the job; the same for all attempts.
    pub id: String,
    /// Identifies this attempt.
    pub request_id: String,
    /// The handler's name.
    pub handler: String,
    /// The queue the job waited in.
    pub queue: String,
    /// The protocol by which the job arrived: `http`, `cli`, `handler`, or the name of a wire.
    pub protocol: String,
    /// The number of this attempt, from 1.
    pub attempt: u32,
    /// The maximum number of attempts that count, if there is a limit. An attempt that the host lost may
    /// not count.
    pub max_attempts: Option<u32>,
    /// When the job was accepted (RFC 3339).
    pub enqueued_at: String,
    /// After this time no attempt may run (RFC 3339).
    pub deadline: Option<String>,
    /// The worker that executes the attempt.
    pub worker_id: Option<String>,
    /// W3C trace context.
    pub trace: Vec<(String, String)>,
    /// Other data that the sender attached: pairs of name and value.
    pub attributes: Vec<(String, String)>,
}

/// The context of one attempt: its job, and the services of the host.
#[derive(Clone)]
pub struct Ctx {
    job: Rc<Job>,
    services: Rc<dyn Services>,
}

impl Ctx {
    pub(crate) fn new(job: Job, services: impl Services + 'static) -> Self {
        Self {
            job: Rc::new(job),
            services: Rc::new(services),
        }
    }

    pub(crate) fn services(&self) -> &dyn Services {
        &*self.services
    }

    /// Returns the job.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// Returns the job's attribute `name`, if it has one.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        let mut attributes = self.job.attributes.iter();
        attributes
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// Returns the reason if the job has been asked to stop, or `None`.
    pub fn cancelled(&self) -> Option<String> {
        self.services.cancelled()
    }

    /// Returns [`Error::Cancelled`] if the job has been asked to stop. To keep partial results, call
    /// [`Ctx::cancelled`] and return [`Error::cancelled`] instead.
    pub fn check_cancelled(&self) -> Result<(), Error> {
        match self.cancelled() {
            Some(_) => Err(Error::Cancelled { partial: None }),
            None => Ok(()),
        }
    }

    /// Returns how much of the time limit is left, if there is a limit.
    pub fn remaining(&self) -> Option<Duration> {
        let ms = self.services.remaining_ms()?;
        Some(Duration::from_millis(ms.into()))
    }

    /// Reports progress: 0 to 100 percent, and what the job is doing.
    pub fn progress(&self, percent: f32, message: impl Display) {
        let message = cut(message, LINE_BYTES_MAX);
        self.services.progress(Some(percent), &message);
    }

    /// Sleeps without using CPU, for 49 days at most.
    pub fn sleep(&self, duration: Duration) {
        let ms = u32::try_from(duration.as_millis()).unwrap_or(u32::MAX);
        self.services.sleep_ms(ms);
    }

    /// Makes requests to HTTP servers that the manifest names. The host sends them and adds the headers of the
    /// manifest, with secrets that the handler never sees.
    ///
    /// ```
    /// # use guest_sdk::{Ctx, Error};
    /// fn balance(ctx: &Ctx) -> Result<u64, Error> {
    ///     let answer = ctx.http().get("https://api.example.com/balance").send()?;
    ///     answer.ok()?.json()
    /// }
    /// ```
    pub const fn http(&self) -> Http<'_> {
        Http::new(&self.services)
    }

    /// Enqueues a job that exists exactly if this attempt completes. Returns its id. If a job with the same unique
    /// key exists then, none is added.
    ///
    /// ```
    /// # use guest_sdk::{Ctx, Error, NewJob};
    /// fn order(ctx: &Ctx, rows: &[u32]) -> Result<(), Error> {
    ///     for row in rows {
    ///         ctx.enqueue(&NewJob::new("import-row").params(row)?)?;
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub fn enqueue(&self, job: &NewJob) -> Result<String, StoreError> {
        only(self.enqueue_all(std::slice::from_ref(job))?)
    }

    /// Enqueues jobs, all or none, as [`Ctx::enqueue`] does. Returns their ids, in order.
    pub fn enqueue_all(&self, jobs: &[NewJob]) -> Result<Vec<String>, StoreError> {
        self.enqueue_some(jobs, false)
    }

    /// Enqueues a job now: it is on disk when this returns, and stays if this attempt does not complete. An attempt
    /// that follows enqueues it again, unless it has a unique key. Returns its id, or that of the job that has the
    /// key.
    pub fn enqueue_now(&self, job: &NewJob) -> Result<String, StoreError> {
        only(self.enqueue_all_now(std::slice::from_ref(job))?)
    }

    /// Enqueues jobs, all or none, as [`Ctx::enqueue_now`] does. Returns their ids, in order.
    pub fn enqueue_all_now(&self, jobs: &[NewJob]) -> Result<Vec<String>, StoreError> {
        self.enqueue_some(jobs, true)
    }

    fn enqueue_some(&self, jobs: &[NewJob], now: bool) -> Result<Vec<String>, StoreError> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        self.services.enqueue(jobs, now)
    }

    /// Returns the state of the handler: values that it keeps from one attempt to another. What an attempt sets is
    /// stored exactly if it completes.
    ///
    /// ```
    /// # use guest_sdk::{Ctx, Error};
    /// fn next_page(ctx: &Ctx) -> Result<u32, Error> {
    ///     let page = ctx.state().get("page")?.unwrap_or(1);
    ///     ctx.state().set("page", &(page + 1))?;
    ///     Ok(page)
    /// }
    /// ```
    pub const fn state(&self) -> State<'_> {
        State::new(&self.services)
    }

    /// Returns a database that the manifest names: `[[handlers.NAME.sql]]`. The host signs in and keeps connections.
    ///
    /// ```
    /// # use guest_sdk::{Ctx, Error};
    /// fn raise(ctx: &Ctx, name: &str) -> Result<u32, Error> {
    ///     let changed = ctx.sql("shop").query("UPDATE prices SET price = price * 1.1 WHERE name = $1", [name])?;
    ///     Ok(changed.affected)
    /// }
    /// ```
    pub fn sql(&self, name: &str) -> Sql {
        Sql::new(Rc::clone(&self.services), name)
    }

    /// Returns the files that the job produces and reads, if the manifest has `artifact_mib`. What it produces is kept with the
    /// job exactly if this attempt completes.
    ///
    /// ```
    /// # use std::io::Write as _;
    /// # use guest_sdk::{Ctx, Error};
    /// fn report(ctx: &Ctx, rows: &[(&str, u32)]) -> Result<(), Error> {
    ///     let mut file = ctx.artifacts().create_as("rows.csv", "text/csv")?;
    ///     for (name, count) in rows {
    ///         writeln!(file, "{name},{count}")?;
    ///     }
    ///     file.close()?;
    ///     Ok(())
    /// }
    /// ```
    pub const fn artifacts(&self) -> Artifacts<'_> {
        Artifacts::new(&self.services)
    }

    /// Returns the value of a secret that the manifest lets the handler see: `secrets = ["signing"]`. It is recorded
    /// in the audit. The host hides the value where the attempt's log, progress, result and failure have it literally.
    ///
    /// To call an API with a key, name the secret in the headers of the grant instead, as [`Ctx::http`] shows: then
    /// the handler never sees it.
    ///
    /// ```
    /// # use guest_sdk::{Ctx, Error};
    /// fn sign(ctx: &Ctx, text: &str) -> Result<u64, Error> {
    ///     let key = ctx.secret("signing")?;
    ///     # fn mac(key: &[u8], text: &str) -> u64 { key.len() as u64 + text.len() as u64 }
    ///     Ok(mac(key.as_bytes(), text))
    /// }
    /// ```
    pub fn secret(&self, name: &str) -> Result<String, StoreError> {
        check_name("the name of a secret", name)?;
        self.services.reveal(name)
    }

    /// Holds the key that the job has of a limit which the manifest names, for 24 hours at most: no job of the key
    /// starts within this time, on any node. It is stored immediately, whatever becomes of this attempt. If the attempt then
    /// asks for a retry, it does not count.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use guest_sdk::{Ctx, Error};
    /// fn call(ctx: &Ctx) -> Result<(), Error> {
    ///     let answer = ctx.http().get("https://api.example.com/rows").send()?;
    ///     if answer.status == 429 {
    ///         ctx.hold("by-customer", Duration::from_secs(30))?;
    ///         return Err(Error::retry_after_ms("too many requests", 30_000));
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub fn hold(&self, limit: &str, time: Duration) -> Result<(), StoreError> {
        let ms = u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        check_name("the name of a limit", limit)?;
        self.services.hold(limit, ms)
    }

    /// Writes a line with fields to the job's log. Fields are pairs of texts, or an object whose values keep their types.
    ///
    /// ```
    /// # use guest_sdk::{Ctx, Level};
    /// # use serde_json::json;
    /// fn report(ctx: &Ctx, rows: u64) {
    ///     ctx.log(Level::Info, "imported", json!({ "rows": rows, "from": "orders.csv" }));
    ///     ctx.log(Level::Debug, "closed", &[("from", "orders.csv")]);
    /// }
    /// ```
    pub fn log(&self, level: Level, message: impl Display, fields: impl LogFields) {
        let fields = fields.into_pairs().into_iter().take(FIELDS_MAX);
        let short = fields.map(|(name, value)| (cut(name, FIELD_NAME_BYTES_MAX), field(value)));
        self.services
            .log(level, &cut(message, LINE_BYTES_MAX), short.collect());
    }

    /// Writes a line to the job's log.
    pub fn info(&self, message: impl Display) {
        self.log(Level::Info, message, &[][..]);
    }

    /// Writes a warning to the job's log.
    pub fn warn(&self, message: impl Display) {
        self.log(Level::Warn, message, &[][..]);
    }
}

/// Returns the value of a field. One that is too long becomes a text without its end.
fn field(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(cut(text, LINE_BYTES_MAX)),
        Value::Array(_) | Value::Object(_) => match value.to_string() {
            json if json.len() > LINE_BYTES_MAX => Value::String(cut(json, LINE_BYTES_MAX)),
            _ => value,
        },
        _ => value,
    }
}

/// Returns the id of the one job of a call.
fn only(mut ids: Vec<String>) -> Result<String, StoreError> {
    ids.pop().ok_or_else(|| StoreError {
        kind: StoreErrorKind::Unavailable,
        message: "the host did not return the id of the job".to_owned(),
    })
}
