//! A mock host for native tests of handlers.

mod attempt;

use std::cell::{RefCell, RefMut};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use self::attempt::State;
use crate::ctx::{Ctx, Job};
use crate::error::Error;
use crate::limits::write_jobs;
use crate::replay;
use crate::request::{HttpError, HttpErrorKind, HttpRequest, HttpResponse};
use crate::services::{Expected, Level, Progress, Services, Write};
use crate::sql::{Rows, SqlAnswer, SqlError, SqlErrorKind};
use crate::store::{NewJob, StoreError, StoreErrorKind};

/// Replaces the host in `cargo test`. It records progress and logs, and can ask the handler to stop.
///
/// ```
/// use guest_sdk::MockHost;
///
/// let host = MockHost::new();
/// let ctx = host.ctx();
/// ctx.progress(50.0, "half of it");
/// assert_eq!(host.progress(), [(Some(50.0), "half of it".to_owned())]);
/// host.cancel("enough");
/// assert!(ctx.check_cancelled().is_err());
/// ```
#[derive(Clone, Default)]
pub struct MockHost {
    state: Rc<RefCell<State>>,
    job: Job,
    answer: Option<Rc<Answer>>,
    has_no_store: bool,
    secrets: BTreeMap<String, String>,
    limits: BTreeSet<String>,
    databases: BTreeMap<String, Rc<Database>>,
}

/// A line of the job's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// How urgent it is.
    pub level: Level,
    /// What it says.
    pub message: String,
    /// Its fields, by name.
    pub fields: BTreeMap<String, Value>,
}

/// The longest time for which a key of a limit is held, in milliseconds.
const HOLD_MS_MAX: u32 = 86_400_000;

/// Answers requests in place of HTTP servers.
type Answer = dyn Fn(&HttpRequest) -> Result<HttpResponse, HttpError>;

/// Answers statements in place of a database.
type Database = dyn Fn(&str, &[Value]) -> Result<Rows, SqlError>;

impl MockHost {
    /// Makes a host that runs the first attempt of the job `test`.
    pub fn new() -> Self {
        Self {
            state: Rc::default(),
            job: Job {
                id: "test".to_owned(),
                request_id: "test-1".to_owned(),
                attempt: 1,
                protocol: "test".to_owned(),
                ..Job::default()
            },
            answer: None,
            has_no_store: false,
            secrets: BTreeMap::new(),
            limits: BTreeSet::new(),
            databases: BTreeMap::new(),
        }
    }

    /// Sets the attempt number.
    #[must_use]
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.job.attempt = attempt;
        self
    }

    /// Adds an attribute to the job.
    #[must_use]
    pub fn attribute(mut self, name: &str, value: &str) -> Self {
        self.job
            .attributes
            .push((name.to_owned(), value.to_owned()));
        self
    }

    /// Answers the handler's requests to HTTP servers. Without it none is granted.
    ///
    /// ```
    /// use guest_sdk::{HttpResponse, MockHost};
    ///
    /// let host = MockHost::new().answer(|_| Ok(HttpResponse::json_of(200, &[1, 2])));
    /// let answer = host.ctx().http().get("https://api.example.com").send().unwrap();
    /// assert_eq!(answer.text(), "[1,2]");
    /// ```
    #[must_use]
    pub fn answer(
        mut self,
        answer: impl Fn(&HttpRequest) -> Result<HttpResponse, HttpError> + 'static,
    ) -> Self {
        self.answer = Some(Rc::new(answer));
        self
    }

    /// Answers the handler's requests as they were answered in a recording: a file in the format HAR, which developer
    /// tools of browsers and proxies such as mitmproxy write. By hand, an entry needs no more than this one.
    ///
    /// A request gets the responses of the entries with its method and URL, and its body if `postData` has a `text`:
    /// each once, in order, and then the last one. Cookies and keys of the recording are not read; remove them.
    ///
    /// ```
    /// use guest_sdk::MockHost;
    ///
    /// // As a rule from a file: include_str!("rows.har").
    /// let host = MockHost::new().replay(r#"{"log": {"entries": [{
    ///     "request": {"method": "GET", "url": "https://api.example.com/rows"},
    ///     "response": {"status": 200, "content": {"text": "[1,2]"}}
    /// }]}}"#);
    /// let answer = host.ctx().http().get("https://api.example.com/rows").send().unwrap();
    /// assert_eq!(answer.text(), "[1,2]");
    /// ```
    ///
    /// # Panics
    ///
    /// If it is not in the format HAR.
    #[must_use]
    pub fn replay(self, har: &str) -> Self {
        self.answer(replay::answers(har))
    }

    /// Gives the handler state that it has kept before.
    ///
    /// # Panics
    ///
    /// If the value cannot be serialized.
    #[must_use]
    pub fn with_state(self, key: &str, value: &(impl Serialize + ?Sized)) -> Self {
        let value = serde_json::to_vec(value).expect("the value can be serialized");
        let key = (None, key.to_owned());
        self.state.borrow_mut().values.insert(key, value);
        self
    }

    /// Lets the handler read a file, as if its job was enqueued with it.
    ///
    /// ```
    /// use std::io::Read as _;
    ///
    /// use guest_sdk::MockHost;
    ///
    /// let ctx = MockHost::new().with_file("rows.csv", b"a,1").ctx();
    /// let mut rows = String::new();
    /// ctx.artifacts().open("rows.csv").unwrap().read_to_string(&mut rows).unwrap();
    /// assert_eq!(rows, "a,1");
    /// ```
    #[must_use]
    pub fn with_file(self, name: &str, content: &[u8]) -> Self {
        let (name, content) = (name.to_owned(), content.to_vec());
        self.state.borrow_mut().files.given.insert(name, content);
        self
    }

    /// Lets the handler see a secret. Without it none is granted.
    ///
    /// ```
    /// use guest_sdk::MockHost;
    ///
    /// let ctx = MockHost::new().with_secret("signing", "k1").ctx();
    /// assert_eq!(ctx.secret("signing").unwrap(), "k1");
    /// assert!(ctx.secret("other").is_err());
    /// ```
    #[must_use]
    pub fn with_secret(mut self, name: &str, value: &str) -> Self {
        self.secrets.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Gives the handler a database, whose answers are those of `answer`: it gets each statement and its parameters. A
    /// transaction begins with the statement `BEGIN` and ends with `COMMIT` or `ROLLBACK`.
    ///
    /// ```
    /// use guest_sdk::{MockHost, Rows};
    ///
    /// let host = MockHost::new().with_sql("shop", |_, _| Ok(Rows::default()));
    /// host.ctx().sql("shop").query("DELETE FROM carts WHERE id = $1", [7]).unwrap();
    /// assert_eq!(host.statements()[0].1, "DELETE FROM carts WHERE id = $1");
    /// ```
    #[must_use]
    pub fn with_sql(
        mut self,
        name: &str,
        answer: impl Fn(&str, &[Value]) -> Result<Rows, SqlError> + 'static,
    ) -> Self {
        self.databases.insert(name.to_owned(), Rc::new(answer));
        self
    }

    /// Gives the job a limit, whose key the handler may hold.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use guest_sdk::MockHost;
    ///
    /// let host = MockHost::new().with_limit("by-customer");
    /// let ctx = host.ctx();
    /// ctx.hold("by-customer", Duration::from_secs(1)).unwrap();
    /// assert_eq!(host.holds(), [("by-customer".to_owned(), 1_000)]);
    /// assert!(ctx.hold("other", Duration::from_secs(1)).is_err());
    /// ```
    #[must_use]
    pub fn with_limit(mut self, name: &str) -> Self {
        self.limits.insert(name.to_owned());
        self
    }

    /// Grants neither jobs nor state, as a manifest without grants.
    #[must_use]
    pub const fn without_store(mut self) -> Self {
        self.has_no_store = true;
        self
    }

    /// Returns the context to call a handler with.
    pub fn ctx(&self) -> Ctx {
        Ctx::new(self.job.clone(), self.clone())
    }

    /// Calls a handler as one attempt: what it has enqueued and set is kept if it completes, and dropped if not.
    pub fn run<T>(&self, handler: impl FnOnce(&Ctx) -> Result<T, Error>) -> Result<T, Error> {
        let ended = handler(&self.ctx());
        self.state.borrow_mut().end(ended.is_ok());
        ended
    }

    /// Asks the handler to stop.
    pub fn cancel(&self, reason: &str) {
        self.state.borrow_mut().cancelled = Some(reason.to_owned());
    }

    /// Asks the handler to stop after `checks` checks for cancellation.
    pub fn cancel_after(&self, checks: u32, reason: &str) {
        self.state.borrow_mut().cancel_after = Some((checks, reason.to_owned()));
    }

    /// Returns all reported progress: percent and message.
    pub fn progress(&self) -> Vec<(Option<f32>, String)> {
        self.state.borrow().progress.clone()
    }

    /// Returns all lines of the log.
    pub fn logs(&self) -> Vec<Line> {
        self.state.borrow().logs.clone()
    }

    /// Returns all requests to HTTP servers.
    pub fn requests(&self) -> Vec<HttpRequest> {
        self.state.borrow().requests.clone()
    }

    /// Returns the jobs that exist exactly if the attempt completes, in order. Their ids are `job-1`, `job-2` and so
    /// on, counted together with the others.
    pub fn enqueued(&self) -> Vec<NewJob> {
        let state = self.state.borrow();
        state.enqueued.iter().map(|it| it.job.clone()).collect()
    }

    /// Returns the jobs that were enqueued immediately, in order.
    pub fn enqueued_now(&self) -> Vec<NewJob> {
        self.state.borrow().enqueued_now.clone()
    }

    /// Returns the statements for databases, each with the name of its database, in order.
    pub fn statements(&self) -> Vec<(String, String)> {
        self.state.borrow().statements.clone()
    }

    /// Returns the content of an artifact of an attempt that has completed.
    pub fn artifact(&self, name: &str) -> Option<Vec<u8>> {
        self.state.borrow().files.kept.get(name).cloned()
    }

    /// Returns the names of the steps that are done, in order.
    pub fn steps(&self) -> Vec<String> {
        self.state.borrow().steps_done()
    }

    /// Returns the limits whose keys were held, each with the time in milliseconds, in order.
    pub fn holds(&self) -> Vec<(String, u32)> {
        self.state.borrow().holds.clone()
    }

    /// Returns the value of a key of the handler's own state.
    ///
    /// # Panics
    ///
    /// If the value does not deserialize into `T`.
    pub fn state<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        let state = self.state.borrow();
        let value = state.value(&(None, key.to_owned()))?;
        Some(serde_json::from_slice(value).expect("the value is JSON of this type"))
    }

    /// Returns the total time of all sleeps, in milliseconds. The mock does not really sleep.
    pub fn slept_ms(&self) -> u64 {
        self.state.borrow().slept_ms
    }
}

impl Services for MockHost {
    fn cancelled(&self) -> Option<String> {
        let mut state = self.state.borrow_mut();
        if let Some((checks, reason)) = state.cancel_after.take() {
            if checks == 0 {
                state.cancelled = Some(reason);
            } else {
                state.cancel_after = Some((checks - 1, reason));
            }
        }
        state.cancelled.clone()
    }

    fn remaining_ms(&self) -> Option<u32> {
        None
    }

    fn progress(&self, percent: Option<f32>, message: &str) {
        let mut state = self.state.borrow_mut();
        state.progress.push((percent, message.to_owned()));
    }

    fn sleep_ms(&self, ms: u32) {
        self.state.borrow_mut().slept_ms += u64::from(ms);
    }

    fn log(&self, level: Level, message: &str, fields: Vec<(String, Value)>) {
        self.state.borrow_mut().logs.push(Line {
            level,
            message: message.to_owned(),
            fields: fields.into_iter().collect(),
        });
    }

    fn http(&self, request: &HttpRequest) -> Result<HttpResponse, HttpError> {
        self.state.borrow_mut().requests.push(request.clone());
        match &self.answer {
            Some(answer) => answer(request),
            None => Err(HttpError {
                kind: HttpErrorKind::NotGranted,
                message: "the mock answers no requests; see MockHost::answer".to_owned(),
            }),
        }
    }

    fn enqueue(&self, jobs: &[NewJob], now: bool) -> Result<Vec<String>, StoreError> {
        write_jobs(jobs)?;
        let mut state = self.store()?;
        let first = state.enqueued.len() + state.enqueued_now.len() + 1;
        if now {
            state.enqueued_now.extend_from_slice(jobs);
        } else {
            state.enqueue(jobs);
        }
        let ids = (first..).take(jobs.len());
        Ok(ids.map(|n| format!("job-{n}")).collect())
    }

    fn state_get(&self, space: Option<&str>, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let key = (space.map(str::to_owned), key.to_owned());
        Ok(self.store()?.value(&key).cloned())
    }

    fn state_set(&self, space: Option<&str>, write: &Write<'_>) -> Result<bool, StoreError> {
        let mut state = self.store()?;
        let key = (space.map(str::to_owned), write.key.to_owned());
        if let Expected::Exactly(expected) = write.expected
            && state.value(&key).map(Vec::as_slice) != expected
        {
            return Ok(false);
        }
        match (write.now, write.value.map(<[u8]>::to_vec)) {
            (false, value) => state.set(key, value),
            (true, Some(value)) => drop(state.values.insert(key, value)),
            (true, None) => drop(state.values.remove(&key)),
        }
        Ok(true)
    }

    fn state_list(
        &self,
        space: Option<&str>,
        prefix: &str,
        after: Option<&str>,
    ) -> Result<Vec<String>, StoreError> {
        let state = self.store()?;
        let wanted = state.keys().filter(|(of, key)| {
            of.as_deref() == space && key.starts_with(prefix) && Some(key.as_str()) > after
        });
        let there: BTreeSet<String> = wanted
            .filter(|key| state.value(key).is_some())
            .map(|(_, key)| key.clone())
            .collect();
        Ok(there.into_iter().collect())
    }

    fn hold(&self, limit: &str, ms: u32) -> Result<(), StoreError> {
        let invalid = |message| {
            let kind = StoreErrorKind::InvalidRequest;
            Err(StoreError { kind, message })
        };
        if !self.limits.contains(limit) {
            return invalid(format!(
                "the job has no limit {limit}; see MockHost::with_limit"
            ));
        }
        if ms > HOLD_MS_MAX {
            return invalid(format!(
                "a key can be held for at most {HOLD_MS_MAX} ms (24 hours)"
            ));
        }
        self.state.borrow_mut().holds.push((limit.to_owned(), ms));
        Ok(())
    }

    fn reveal(&self, name: &str) -> Result<String, StoreError> {
        self.secrets.get(name).cloned().ok_or_else(|| StoreError {
            kind: StoreErrorKind::NotGranted,
            message: format!("the mock has no secret {name}; see MockHost::with_secret"),
        })
    }

    fn sql_query(
        &self,
        database: &str,
        statement: &str,
        params: &str,
    ) -> Result<SqlAnswer, SqlError> {
        let entry = (database.to_owned(), statement.to_owned());
        self.state.borrow_mut().statements.push(entry);
        let refused = |kind, message: String| SqlError {
            kind,
            code: None,
            message,
        };
        let Some(answer) = self.databases.get(database) else {
            let message = format!("the mock has no database {database}; see MockHost::with_sql");
            return Err(refused(SqlErrorKind::NotGranted, message));
        };
        let invalid =
            |error: serde_json::Error| refused(SqlErrorKind::InvalidRequest, error.to_string());
        let params: Vec<Value> = serde_json::from_str(params).map_err(invalid)?;
        let rows = answer(statement, &params)?;
        let values = serde_json::to_string(&rows.values).map_err(invalid)?;
        Ok((rows.columns, values, rows.affected))
    }

    fn sql_begin(&self, database: &str) -> Result<u32, SqlError> {
        self.sql_query(database, "BEGIN", "[]")?;
        let mut state = self.state.borrow_mut();
        state.transactions.push(database.to_owned());
        Ok(u32::try_from(state.transactions.len()).unwrap_or(u32::MAX))
    }

    fn sql_query_in(
        &self,
        transaction: u32,
        statement: &str,
        params: &str,
    ) -> Result<SqlAnswer, SqlError> {
        let place = (transaction as usize).wrapping_sub(1);
        let database = self.state.borrow().transactions.get(place).cloned();
        self.sql_query(&database.unwrap_or_default(), statement, params)
    }

    fn sql_end(&self, transaction: u32, commits: bool) -> Result<(), SqlError> {
        let statement = if commits { "COMMIT" } else { "ROLLBACK" };
        self.sql_query_in(transaction, statement, "[]").map(|_| ())
    }

    fn artifact_create(&self, name: &str, _content_type: Option<&str>) -> Result<u32, StoreError> {
        Ok(self.store()?.files.create(name))
    }

    fn artifact_write(&self, artifact: u32, content: &[u8]) -> Result<(), StoreError> {
        self.store()?.files.write(artifact, content)
    }

    fn artifact_close(&self, artifact: u32) -> Result<(), StoreError> {
        self.store()?.files.close(artifact)
    }

    fn artifact_open(&self, name: &str) -> Result<u32, StoreError> {
        self.store()?.files.open(name)
    }

    fn artifact_read(&self, artifact: u32, bytes_max: u32) -> Result<Vec<u8>, StoreError> {
        self.store()?.files.read(artifact, bytes_max)
    }

    fn step_begin(&self, name: &str) -> Result<Progress, StoreError> {
        self.store()?.begin_step(name)
    }

    fn step_checkpoint(&self, checkpoint: &str) -> Result<(), StoreError> {
        let mut state = self.store()?;
        state.commit_step(Progress::Begun(checkpoint.to_owned()))?;
        state.continue_step();
        Ok(())
    }

    fn step_complete(&self, result: &str) -> Result<(), StoreError> {
        let mut state = self.store()?;
        state.commit_step(Progress::Done(result.to_owned()))
    }

    fn step_fail(&self, error: &str) -> Result<(), StoreError> {
        self.store()?.fail_step(error)
    }
}

impl MockHost {
    fn store(&self) -> Result<RefMut<'_, State>, StoreError> {
        if self.has_no_store {
            return Err(StoreError {
                kind: StoreErrorKind::NotGranted,
                message: "the mock has no store; see MockHost::without_store".to_owned(),
            });
        }
        Ok(self.state.borrow_mut())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::MockHost;
    use crate::export::call;
    use crate::{Ctx, Error};

    #[expect(clippy::unnecessary_wraps, reason = "this is what a handler returns")]
    fn echo(_: &Ctx, params: Value) -> Result<Value, Error> {
        Ok(params)
    }

    #[test]
    fn numbers_come_out_as_they_went_in() {
        let ctx = MockHost::new().ctx();
        for number in [
            "0.9836120947816811",
            "2.2250738585072014e-308",
            "1.7976931348623157e+308",
            "9007199254740993",
            "18446744073709551615",
            "-9223372036854775808",
        ] {
            assert_eq!(call(&ctx, number, echo).unwrap(), number);
        }
    }
}
