//! Whether this host can read a row: what each part of a store must hold, and how a row is named.

use std::str::FromStr;

use host_core::failure::Failure;
use host_core::id::{BatchId, JobId};
use host_core::invariants;
use host_core::job::{Lifecycle, LimitKey, STATES};
use host_core::name::Name;
use host_core::outcome::{Attempt, Progress};
use host_core::state::Space;
use host_core::time::Time;
use host_engine::batch::{BatchPlan, BatchProgress};
use host_engine::component::Revision;
use host_engine::limit::Limit;
use host_engine::schedule::{Firing, Schedule};
use host_engine::token::{Token, TokenId};
use host_engine::{StoreError, schedule};
use serde::de::{DeserializeOwned, IgnoredAny};
use uuid::Uuid;

use crate::logs::{self, LEVELS, SOURCES};
use crate::parts::{PARTS, Row, Value};
use crate::record::{ChangesRow, Extra, decode};

/// The column of a job's id.
pub(crate) const JOB: usize = 1;

/// Returns what a row is, and which one.
pub(crate) fn name(part: usize, row: &Row) -> (&'static str, String) {
    let columns = match PARTS[part].row {
        "job" => &[JOB],
        _ => PARTS[part].keys,
    };
    let words = columns.iter().map(|column| match &row[*column] {
        Value::Null => "null".to_owned(),
        Value::Int(number) => number.to_string(),
        Value::Text(text) => text.clone(),
        Value::Bytes(bytes) => match Uuid::from_slice(bytes) {
            Ok(id) => id.to_string(),
            Err(_) => match std::str::from_utf8(bytes) {
                Ok(text) if !text.contains(char::is_control) => text.to_owned(),
                _ => hex(bytes),
            },
        },
    });
    (PARTS[part].row, words.collect::<Vec<_>>().join(" "))
}

/// Writes bytes as hexadecimal digits behind `\x`.
pub(crate) fn hex(bytes: &[u8]) -> String {
    format!("\\x{}", host_core::hex::hex(bytes))
}

/// The columns of a row, each read as what it must be.
struct Columns<'a>(&'a Row);

type ColumnResult<T> = Result<T, String>;

impl<'a> Columns<'a> {
    fn int(&self, column: usize) -> ColumnResult<i64> {
        match &self.0[column] {
            Value::Int(number) => Ok(*number),
            _ => Err(format!("column {column} is not a number")),
        }
    }

    fn small<T: TryFrom<i64>>(&self, column: usize) -> ColumnResult<T> {
        let number = self.int(column)?;
        T::try_from(number).map_err(|_| format!("{number} is out of range"))
    }

    fn maybe_int(&self, column: usize) -> ColumnResult<()> {
        match &self.0[column] {
            Value::Null => Ok(()),
            _ => self.int(column).map(drop),
        }
    }

    fn text(&self, column: usize) -> ColumnResult<&'a str> {
        match &self.0[column] {
            Value::Text(text) => Ok(text),
            Value::Bytes(bytes) => Err(format!(
                "{} is not UTF-8",
                hex(&bytes[..bytes.len().min(32)])
            )),
            _ => Err(format!("column {column} is not a text")),
        }
    }

    fn maybe_text(&self, column: usize) -> ColumnResult<()> {
        match &self.0[column] {
            Value::Null => Ok(()),
            _ => self.text(column).map(drop),
        }
    }

    fn bytes(&self, column: usize) -> ColumnResult<&'a [u8]> {
        match &self.0[column] {
            Value::Bytes(bytes) => Ok(bytes),
            _ => Err(format!("column {column} does not hold bytes")),
        }
    }

    fn sized(&self, column: usize, length: usize) -> ColumnResult<()> {
        let found = self.bytes(column)?.len();
        (found == length)
            .then_some(())
            .ok_or_else(|| format!("{found} bytes instead of {length}"))
    }

    fn id(&self, column: usize) -> ColumnResult<()> {
        self.sized(column, 16)
    }

    fn utf8(&self, column: usize) -> ColumnResult<()> {
        let bytes = self.bytes(column)?;
        std::str::from_utf8(bytes)
            .map(drop)
            .map_err(|error| error.to_string())
    }

    fn parse<T: FromStr<Err: ToString>>(&self, column: usize) -> ColumnResult<T> {
        let text = self.text(column)?;
        text.parse::<T>().map_err(|error| error.to_string())
    }

    fn json<T: DeserializeOwned>(&self, column: usize) -> ColumnResult<T> {
        serde_json::from_str(self.text(column)?).map_err(|error| error.to_string())
    }

    fn record<T: DeserializeOwned>(&self, column: usize) -> ColumnResult<T> {
        decode(self.bytes(column)?, String::new).map_err(StoreError::flaw)
    }

    fn maybe<T>(
        &self,
        column: usize,
        read: impl FnOnce(&Self) -> ColumnResult<T>,
    ) -> ColumnResult<()> {
        match &self.0[column] {
            Value::Null => Ok(()),
            _ => read(self).map(drop),
        }
    }
}

/// Returns why this host cannot read a row, or the job that it is.
pub(crate) fn judge(part: usize, row: &Row) -> Result<Option<Box<Lifecycle>>, String> {
    let it = Columns(row);
    match PARTS[part].name {
        "jobs that have not ended" | "jobs that have ended" => return job(&it).map(Some),
        "params" => {
            it.id(0)?;
            it.json::<IgnoredAny>(1)?;
            it.text(2)?;
            it.maybe(3, |it| it.utf8(3))?;
            it.maybe(4, |it| it.record::<Extra>(4))?;
        }
        "attempts" => {
            it.id(0)?;
            let attempt: Attempt = it.record(2)?;
            if it.int(1)? != i64::from(attempt.number) {
                return Err("its number differs from its record".to_owned());
            }
            it.maybe(3, |it| it.record::<Progress>(3))?;
            it.maybe(4, |it| it.json::<IgnoredAny>(4))?;
        }
        "failures" => {
            it.id(0)?;
            it.small::<u32>(1)?;
            it.record::<Failure>(2)?;
        }
        "changes" => {
            // A database numbers changes after their commit.
            it.maybe_int(0)?;
            it.small::<u64>(1)?;
            let at = Time(it.int(2)?);
            let read = ChangesRow::read(0, at, it.bytes(3)?, 0).map(drop);
            read.map_err(StoreError::flaw)?;
        }
        _ => rest(part, &it)?,
    }
    Ok(None)
}

/// The same for what is kept with jobs: files, steps and logs.
fn kept_with_jobs(part: usize, it: &Columns<'_>) -> ColumnResult<()> {
    match PARTS[part].name {
        "artifacts" => {
            it.id(0).and(it.text(1)).and(it.text(2))?;
            it.small::<u64>(3)?;
            it.sized(4, 32).and(it.id(5))
        }
        "files for jobs" => it
            .id(0)
            .and(it.text(1))
            .and(it.id(2))
            .and(it.text(3))
            .map(drop),
        "uploads" => {
            it.id(0).and(it.text(1)).and(it.int(2))?;
            it.small::<u64>(3).map(drop)
        }
        "sizes of uploads" => {
            it.text(0)?;
            it.small::<u64>(1).and(it.small::<u64>(2)).map(drop)
        }
        "contents of artifacts" => it.id(0).and(it.text(1)).and(it.bytes(2)).map(drop),
        "steps" => {
            it.id(0).and(it.small::<u32>(1)).and(it.text(2))?;
            it.text(3).and(it.text(4))?;
            it.int(5).and(it.small::<u64>(6)).map(drop)
        }
        "lines of logs" => {
            it.id(1)?;
            it.small::<u32>(2)?;
            let [level, source] = [it.small::<usize>(4)?, it.small::<usize>(5)?];
            let is_known = level < LEVELS.len() && source < SOURCES.len();
            is_known
                .then_some(())
                .ok_or("its level or source is unknown")?;
            it.utf8(6)?;
            it.maybe(7, |it| {
                logs::fields(it.text(7)?).map_err(|error| error.to_string())
            })
        }
        _ => Ok(()),
    }
}

/// The same for the parts that are not about one job.
fn rest(part: usize, it: &Columns<'_>) -> ColumnResult<()> {
    match PARTS[part].name {
        "queues" => it.parse::<Name>(0).map(drop),
        "unique keys" => it.parse::<Name>(0).and(it.utf8(1)).and(it.id(2)),
        "dependencies" => it.id(0).and(it.id(1)).and(it.int(2)).map(drop),
        "cascades" => {
            let state = STATES.get(it.small::<usize>(2)?);
            let has_ended = state.is_some_and(|state| state.is_terminal());
            has_ended.then_some(()).ok_or("its state is no end")?;
            it.id(1)
        }
        "components" => {
            it.parse::<Name>(0)?;
            let current = it.int(1)?.checked_abs().unwrap_or_default();
            u32::try_from(current)
                .map(drop)
                .map_err(|error| error.to_string())
        }
        "revisions" => {
            let (component, number): (Name, u32) = (it.parse(0)?, it.small(1)?);
            let revision: Revision = it.json(3)?;
            it.sized(2, 32)?;
            let is_same = revision.component == component && revision.revision == number;
            is_same
                .then_some(())
                .ok_or("it names another revision".to_owned())
        }
        "component files" => it.sized(0, 32).and(it.bytes(1)).map(drop),
        "state" => {
            it.parse::<Space>(0)?;
            it.text(1).and(it.int(2)).and(it.bytes(3)).map(drop)
        }
        "sizes of state" => {
            it.parse::<Space>(0)?;
            it.small::<u64>(1).and(it.small::<u64>(2)).map(drop)
        }
        "tokens" => {
            it.parse::<TokenId>(0)?;
            it.json::<Token>(1)?;
            it.maybe_int(2)
        }
        "numbers of principals" => it.text(0).and(it.int(1)).map(drop),
        "entries of the audit" => {
            it.small::<u64>(0).and(it.int(1))?;
            it.sized(2, 32).and(it.sized(4, 32))?;
            it.json::<IgnoredAny>(3).map(drop)
        }
        "schedules" => {
            let name: Name = it.parse(0)?;
            let schedule: Schedule = it.json(1)?;
            it.json::<schedule::Progress>(2)?;
            let is_same = schedule.name == name;
            is_same
                .then_some(())
                .ok_or("it has another name".to_owned())
        }
        "firings of schedules" => {
            it.parse::<Name>(0)?;
            it.small::<u64>(1)?;
            it.json::<Firing>(2).map(drop)
        }
        "limits" => {
            it.int(0)?;
            it.json::<Limit>(1)?;
            it.maybe_text(3)
        }
        "keys of limits" => key_of_limit(it),
        "running jobs of limits" => it.int(0).and(it.text(1)).and(it.int(2)).and(it.id(3)),
        "batches" => {
            it.id(0)?;
            it.json::<BatchPlan>(1)?;
            it.json::<BatchProgress>(2)?;
            it.maybe_int(4)
        }
        _ => kept_with_jobs(part, it),
    }
}

/// Reads the columns behind number and key in their order in `held_keys.rs`.
fn key_of_limit(it: &Columns<'_>) -> ColumnResult<()> {
    it.int(0).and(it.text(1))?;
    for column in [2, 3, 8, 9, 10] {
        it.small::<u32>(column)?;
    }
    for column in [4, 5, 7, 11] {
        it.int(column)?;
    }
    it.maybe_int(6)
}

fn job(it: &Columns<'_>) -> ColumnResult<Box<Lifecycle>> {
    it.int(0)?;
    it.id(JOB)?;
    let job: Lifecycle = it.record(9)?;
    invariants::check(&job).map_err(|broken| format!("it violates the rule: {}", broken.0))?;
    if it.bytes(JOB)? != job.id.0.as_bytes() {
        return Err("its id differs from its record".to_owned());
    }
    it.int(10)?;
    Ok(Box::new(job))
}

/// Returns the row of a job, with the columns that its record says.
pub(crate) fn job_columns(row: &Row, job: &Lifecycle) -> Row {
    let id = |id: &Uuid| Value::Bytes(id.as_bytes().to_vec());
    let text = |text: Option<String>| text.map_or(Value::Null, Value::Text);
    let (JobId(own), batch) = (&job.id, job.batch.as_ref());
    vec![
        row[0].clone(),
        id(own),
        Value::Int(job.state as i64),
        Value::Text(job.queue.to_string()),
        Value::Int(job.priority.into()),
        Value::Int(job.suspicion.is_apart().into()),
        Value::Text(job.handler.to_string()),
        text(job.executor.as_ref().map(Name::to_string)),
        job.wakeup().map_or(Value::Null, |at| Value::Int(at.0)),
        row[9].clone(),
        row[10].clone(),
        text(job.waits_for_key().map(LimitKey::to_string)),
        batch.map_or(Value::Null, |BatchId(batch)| id(batch)),
    ]
}
