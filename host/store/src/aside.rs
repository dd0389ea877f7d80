//! Sets records aside that this host cannot read, so that it can use the rest of the store. Every row is read twice, in terms
//! that both engines share: first to find what cannot be read and what belongs to it, then to remove that and to count the
//! rest again. It is one transaction, which is committed once what it removes is kept elsewhere.

mod rest;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io;

use host_core::job::Lifecycle;
use host_engine::StoreError;
use host_engine::limit::{Limit, WhenFull};
use serde_json::{Map, json};

use self::rest::Rest;
use crate::judge::{JOB, hex, job_columns, judge, name};
use crate::parts::{PARTS, Row, See, Value};
use crate::record::empty_changes;

/// The column of a job's queue.
pub(crate) const QUEUE: usize = 3;

/// How many records are set aside at most. A store with more of them was probably written by a later host, or its file is damaged.
const SET_ASIDE_MAX: usize = 1_000;

/// A record that was set aside.
#[derive(Clone, Debug, PartialEq)]
pub struct SetAside {
    /// What it is: a job, a schedule.
    pub kind: &'static str,
    /// Which one.
    pub id: String,
    /// Why it was set aside.
    pub reason: String,
    /// Its row: what cannot be shown as text or as a number is in hexadecimal digits behind `\x`.
    pub row: serde_json::Value,
}

/// Keeps what is set aside.
pub trait Keep {
    /// Keeps a record.
    fn keep(&mut self, record: &SetAside) -> io::Result<()>;

    /// Makes what was kept durable. It is removed from the store then.
    fn sync(&mut self) -> io::Result<()>;
}

/// A store in a transaction, whose rows are the same in all engines.
pub(crate) trait Engine {
    /// Returns the columns of a part, as a user is shown them.
    fn columns(part: usize) -> Cow<'static, str>;

    /// Calls `see` with each row of a part.
    fn each(&self, part: usize, see: See<'_>) -> Result<(), StoreError>;

    /// Removes the row with these keys.
    fn delete(&self, part: usize, keys: &Row) -> Result<(), StoreError>;

    /// Adds a row.
    fn insert(&self, part: usize, row: &Row) -> Result<(), StoreError>;

    /// Replaces the changes in a row by none.
    fn empty_changes(&self, row: &Row, body: &[u8]) -> Result<(), StoreError>;

    /// Counts anew what the engine counts by itself, lets what waits for a job that is gone continue, and removes components whose
    /// current revision is gone.
    fn recount(&self) -> Result<(), StoreError>;
}

/// What is to become of a row.
enum Fate {
    Stays,
    /// It is removed, for this reason.
    Goes(String),
    /// It is replaced by another, because it cannot be read or is wrong.
    Becomes(usize, Row, String),
    /// Its changes are replaced by none.
    Empties(String),
}

/// What cannot be read or is wrong, and what goes with it.
#[derive(Default)]
struct FirstReading {
    /// How many rows are unreadable or wrong.
    flaws: usize,
    /// The jobs that go, by id and by place.
    jobs: BTreeSet<Value>,
    places: BTreeSet<Value>,
    schedules: BTreeSet<Value>,
    components: BTreeSet<Value>,
}

impl FirstReading {
    /// Records what goes with a row that cannot be read.
    fn record(&mut self, part: usize, row: &Row) {
        self.flaws += 1;
        match PARTS[part].name {
            "jobs that have not ended" | "jobs that have ended" => {
                self.places.insert(row[0].clone());
                self.jobs.insert(row[JOB].clone());
            }
            // A job cannot do without its params, and not wait for a job without a name.
            "params" => {
                self.jobs.insert(row[0].clone());
            }
            "dependencies" => {
                self.jobs.insert(row[1].clone());
                self.places.insert(row[2].clone());
            }
            "schedules" => {
                self.schedules.insert(row[0].clone());
            }
            "components" => {
                self.components.insert(row[0].clone());
            }
            _ => {}
        }
    }

    fn fate<E: Engine>(&mut self, part: usize, row: &Row) -> Fate {
        let judged = judge(part, row);
        match (PARTS[part].name, judged) {
            ("limits", Err(reason)) => Fate::Becomes(part, stand_in(row), reason),
            ("changes", Err(reason)) => Fate::Empties(reason),
            (_, Err(reason)) => Fate::Goes(reason),
            ("jobs that have not ended" | "jobs that have ended", Ok(Some(job))) => {
                if self.jobs.contains(&row[JOB]) || self.places.contains(&row[0]) {
                    self.jobs.insert(row[JOB].clone());
                    return Fate::Goes("a record of it cannot be read".to_owned());
                }
                fate_of_job::<E>(part, row, &job)
            }
            (kind, Ok(_)) => self.belongs(kind, row),
        }
    }

    /// Removes what belongs to something that goes.
    fn belongs(&self, kind: &str, row: &Row) -> Fate {
        let (goes, owner, column) = match kind {
            "params" | "attempts" | "failures" => (&self.jobs, "job", 0),
            "unique keys" => (&self.jobs, "job", 2),
            "dependencies" => (&self.jobs, "job", 1),
            "running jobs of limits" => (&self.jobs, "job", 3),
            "firings of schedules" => (&self.schedules, "schedule", 0),
            "revisions" => (&self.components, "component", 0),
            _ => return Fate::Stays,
        };
        if goes.contains(&row[column]) {
            return Fate::Goes(format!("it belongs to a {owner} that is set aside"));
        }
        Fate::Stays
    }
}

/// Rewrites a job whose columns differ from its record, as the record says.
fn fate_of_job<E: Engine>(part: usize, row: &Row, job: &Lifecycle) -> Fate {
    let columns = job_columns(row, job);
    let differs = columns.iter().zip(row).position(|(new, old)| new != old);
    let table = if job.state.is_terminal() { 2 } else { 1 };
    match differs {
        None if table == part => Fate::Stays,
        None => Fate::Becomes(table, columns, "it was among the wrong jobs".to_owned()),
        Some(column) => {
            let name = names_of_columns::<E>(part)[column].clone();
            let reason = format!("its {name} differs from its record, which counts");
            Fate::Becomes(table, columns, reason)
        }
    }
}

/// A limit that lets those pass that wait for one that cannot be read, and is removed then.
fn stand_in(row: &Row) -> Row {
    let limit = Limit {
        name: "set-aside".parse().expect("a name"),
        matches: host_core::access::Scope::default(),
        key: Vec::new(),
        concurrency: Some(1),
        rate: None,
        when_full: WhenFull::Wait,
        source: host_engine::schedule::Source::Api,
    };
    let body = json!(limit).to_string();
    vec![
        row[0].clone(),
        Value::Text(body),
        Value::Int(1),
        Value::Null,
    ]
}

/// Returns the names of the columns of a part.
fn names_of_columns<E: Engine>(part: usize) -> Vec<String> {
    let columns = E::columns(part);
    columns.split(", ").map(|it| it.trim().to_owned()).collect()
}

fn to_json(value: &Value) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Int(number) => (*number).into(),
        Value::Text(text) => text.as_str().into(),
        Value::Bytes(bytes) => hex(bytes).into(),
    }
}

fn record<E: Engine>(part: usize, row: &Row, reason: &str) -> SetAside {
    let columns = names_of_columns::<E>(part).into_iter().zip(row);
    let row_shown: Map<_, _> = columns
        .map(|(name, value)| (name, to_json(value)))
        .collect();
    let (kind, id) = name(part, row);
    SetAside {
        kind,
        id,
        reason: reason.to_owned(),
        row: row_shown.into(),
    }
}

/// What is to be written once all rows were read.
#[derive(Default)]
struct Writes {
    deletes: Vec<(usize, Row)>,
    inserts: Vec<(usize, Row)>,
    emptied: Vec<Row>,
}

/// Sets aside what cannot be read, and counts the rest again. Returns how many records were kept elsewhere. The caller commits.
pub(crate) fn set_aside<E: Engine>(engine: &E, keep: &mut dyn Keep) -> Result<u64, StoreError> {
    let mut found = FirstReading::default();
    for part in 0..PARTS.len() {
        engine.each(part, &mut |row| {
            match judge(part, &row) {
                Err(_) => found.record(part, &row),
                Ok(Some(job)) if !matches!(fate_of_job::<E>(part, &row, &job), Fate::Stays) => {
                    found.flaws += 1;
                }
                Ok(_) => {}
            }
            match found.flaws {
                0..=SET_ASIDE_MAX => Ok(()),
                _ => Err(too_many()),
            }
        })?;
    }
    if found.flaws == 0 {
        return Ok(0);
    }
    let (mut kept, mut rest, mut writes) = (0, Rest::default(), Writes::default());
    for part in 0..PARTS.len() {
        engine.each(part, &mut |row| {
            let fate = found.fate::<E>(part, &row);
            if let Fate::Goes(reason) | Fate::Becomes(_, _, reason) | Fate::Empties(reason) = &fate
            {
                kept += 1;
                keep.keep(&record::<E>(part, &row, reason))
                    .map_err(|error| unkept(&error))?;
            }
            match fate {
                Fate::Stays => rest.see(part, &row, &mut writes),
                Fate::Goes(_) => writes.deletes.push((part, keys(part, &row))),
                Fate::Empties(_) => writes.emptied.push(row),
                Fate::Becomes(new_part, new, _) => {
                    rest.see(new_part, &new, &mut writes);
                    writes.deletes.push((part, keys(part, &row)));
                    writes.inserts.push((new_part, new));
                }
            }
            Ok(())
        })?;
    }
    rest.finish(&mut writes);
    keep.sync().map_err(|error| unkept(&error))?;
    write(engine, &writes)?;
    engine.recount()?;
    Ok(kept)
}

/// Returns whether a part has a row for each job.
pub(crate) fn is_of_jobs(part: usize) -> bool {
    matches!(
        PARTS[part].name,
        "jobs that have not ended" | "jobs that have ended"
    )
}

/// Parts that come later refer to jobs, and jobs to queues.
fn write(engine: &impl Engine, writes: &Writes) -> Result<(), StoreError> {
    let (jobs, others): (Vec<_>, Vec<_>) = writes
        .inserts
        .iter()
        .partition(|(part, _)| is_of_jobs(*part));
    let rewritten: BTreeSet<&Value> = jobs.iter().map(|(_, row)| &row[0]).collect();
    let is_rewritten = |part: usize, keys: &Row| is_of_jobs(part) && rewritten.contains(&keys[0]);
    for (part, keys) in writes.deletes.iter().rev() {
        if is_rewritten(*part, keys) {
            engine.delete(*part, keys)?;
        }
    }
    for (part, row) in jobs {
        engine.insert(*part, row)?;
    }
    for (part, keys) in writes.deletes.iter().rev() {
        if !is_rewritten(*part, keys) {
            engine.delete(*part, keys)?;
        }
    }
    for (part, row) in others {
        engine.insert(*part, row)?;
    }
    let none = empty_changes()?;
    for row in &writes.emptied {
        engine.empty_changes(row, &none)?;
    }
    Ok(())
}

/// Returns the columns that identify a row, which removing it needs.
fn keys(part: usize, row: &Row) -> Row {
    let keys = PARTS[part].keys.iter();
    keys.map(|column| row[*column].clone()).collect()
}

fn too_many() -> StoreError {
    StoreError::Broken {
        operation: "set aside what cannot be read",
        message: format!(
            "more than {SET_ASIDE_MAX} records cannot be read; nothing was changed: use the host that wrote the store, or \
             restore a backup"
        ),
    }
}

fn unkept(error: &io::Error) -> StoreError {
    StoreError::Broken {
        operation: "keep what is set aside",
        message: format!("{error}; nothing was changed"),
    }
}
