//! Moves a store from one engine to the other: every row is copied and then compared, in one transaction
//! that is committed only if all rows agree. Both engines name the same parts in the same order.

use std::path::{Path, PathBuf};

use host_core::id::NodeId;
use host_engine::StoreError;

use crate::parts::{LOGS, PARTS, Row, StorePart};
use crate::postgres::copy::{Sink, Source};
use crate::postgres::target::Target;
use crate::sqlite::copy::{Reader, Writer};

/// The parts that have a row for each job.
const JOBS: [usize; 2] = [1, 2];

/// The part that has a row for each component.
const COMPONENTS: usize = 9;

/// How many rows pass between two reports of progress.
const TOLD_ROWS: u64 = 1_000;

/// What is done with the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// They are copied.
    Copying,
    /// They are compared with the copy.
    Verifying,
}

/// The progress of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The step.
    pub step: Step,
    /// The part of the store.
    pub part: &'static str,
    /// How many rows are done.
    pub rows: u64,
    /// How many rows there are.
    pub rows_total: u64,
}

/// What was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// The jobs, whatever their state.
    pub jobs: u64,
    /// The components, including removed ones, whose names are kept.
    pub components: u64,
    /// All rows.
    pub rows: u64,
}

/// Counts the rows of a step and reports its progress.
struct Count<'a> {
    step: Step,
    rows: u64,
    total: u64,
    on_progress: &'a mut dyn FnMut(Progress),
}

impl Count<'_> {
    fn one(&mut self, part: &'static str) {
        if self.rows.is_multiple_of(TOLD_ROWS) {
            (self.on_progress)(Progress {
                step: self.step,
                part,
                rows: self.rows,
                rows_total: self.total,
            });
        }
        self.rows += 1;
    }
}

/// Copies the store at `from` and the logs beside it, which no host may use until then, into a database that
/// has no store. The host keeps its id; `fresh` becomes its id if it has none yet. Upgrades both first.
///
/// If this fails, the database is unchanged except for empty tables.
pub fn to_postgres(
    from: &Path,
    to: &Target,
    allow_unsafe: bool,
    fresh: NodeId,
    on_progress: &mut dyn FnMut(Progress),
) -> Result<Moved, StoreError> {
    let source = Reader::open(from, fresh)?;
    let counts = source.counts()?;
    let mut sink = Sink::open(to, allow_unsafe, source.node())?;
    let mut copying = counting(Step::Copying, &counts, on_progress);
    for (index, StorePart { name: part, .. }) in PARTS.into_iter().enumerate() {
        sink.begin(index)?;
        source.each(index, &mut |row| {
            copying.one(part);
            sink.write(&row)
        })?;
        sink.finish()?;
    }
    sink.number(source.next_seq()?, source.next_change()?)?;
    let mut verifying = counting(Step::Verifying, &counts, on_progress);
    for (index, StorePart { name: part, .. }) in PARTS.into_iter().enumerate() {
        let mut copied = sink.rows(index)?;
        source.each(index, &mut |row| {
            verifying.one(part);
            same(part, Some(&row), copied.next()?.as_ref())
        })?;
        same(part, None, copied.next()?.as_ref())?;
    }
    sink.commit()?;
    Ok(moved(&counts))
}

/// Copies the store in a database that no host uses into a new file, without the logs.
///
/// If this fails, no file is left.
pub fn to_sqlite(
    from: &Target,
    to: &Path,
    on_progress: &mut dyn FnMut(Progress),
) -> Result<Moved, StoreError> {
    let partial = Partial::beside(to)?;
    let mut source = Source::open(from)?;
    let sink = Writer::open(&partial.path, source.node())?;
    let mut counts = source.counts()?;
    counts[LOGS] = 0;
    let mut copying = counting(Step::Copying, &counts, on_progress);
    for (index, StorePart { name: part, .. }) in PARTS.into_iter().enumerate().take(LOGS) {
        let mut rows = source.rows(index)?;
        while let Some(row) = rows.next()? {
            copying.one(part);
            sink.write(index, &row)?;
        }
    }
    sink.number(source.next_seq()?)?;
    let mut verifying = counting(Step::Verifying, &counts, on_progress);
    for (index, StorePart { name: part, .. }) in PARTS.into_iter().enumerate().take(LOGS) {
        let mut rows = source.rows(index)?;
        sink.each(index, &mut |copied| {
            verifying.one(part);
            same(part, rows.next()?.as_ref(), Some(&copied))
        })?;
        same(part, rows.next()?.as_ref(), None)?;
    }
    sink.commit()?;
    partial.keep(to)?;
    Ok(moved(&counts))
}

fn counting<'a>(
    step: Step,
    counts: &[u64; PARTS.len()],
    on_progress: &'a mut dyn FnMut(Progress),
) -> Count<'a> {
    Count {
        step,
        rows: 0,
        total: counts.iter().sum(),
        on_progress,
    }
}

fn moved(counts: &[u64; PARTS.len()]) -> Moved {
    Moved {
        jobs: JOBS.into_iter().map(|part| counts[part]).sum(),
        components: counts[COMPONENTS],
        rows: counts.iter().sum(),
    }
}

/// Refuses a copy that differs. Does not show the rows, which may hold secrets.
fn same(part: &'static str, original: Option<&Row>, copy: Option<&Row>) -> Result<(), StoreError> {
    let message = match (original, copy) {
        (Some(original), Some(copy)) if original == copy => return Ok(()),
        (None, None) => return Ok(()),
        (Some(_), None) => "the copy has fewer rows than the original",
        (None, Some(_)) => "the copy has more rows than the original",
        (Some(_), Some(_)) => "a row of the copy differs from the original",
    };
    Err(StoreError::Broken {
        operation: "verify the copy",
        message: format!("{part}: {message}; the copy was discarded"),
    })
}

/// A file that becomes the store when it is whole, and is removed otherwise.
struct Partial {
    path: PathBuf,
}

/// The suffixes of SQLite's files beside an open file, and of what the store sets aside.
const BESIDE: [&str; 5] = ["", "-wal", "-shm", "-journal", "-reserve"];

impl Partial {
    fn beside(to: &Path) -> Result<Self, StoreError> {
        if to.exists() {
            return Err(unwritten(to, &std::io::ErrorKind::AlreadyExists.into()));
        }
        let mut path = to.as_os_str().to_owned();
        path.push(".partial");
        let partial = Self { path: path.into() };
        partial.remove();
        Ok(partial)
    }

    /// Gives the file its final name, once it is on disk.
    fn keep(&self, to: &Path) -> Result<(), StoreError> {
        let sync = |path: &Path| std::fs::File::open(path).and_then(|file| file.sync_all());
        let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty());
        sync(&self.path)
            .and_then(|()| std::fs::rename(&self.path, to))
            .and_then(|()| sync(folder.unwrap_or(Path::new("."))))
            .map_err(|error| unwritten(to, &error))
    }

    fn remove(&self) {
        for suffix in BESIDE {
            let mut path = self.path.as_os_str().to_owned();
            path.push(suffix);
            // Most of them never existed.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        self.remove();
    }
}

fn unwritten(to: &Path, error: &std::io::Error) -> StoreError {
    StoreError::Broken {
        operation: "write the copy",
        message: format!("{}: {error}", to.display()),
    }
}
