//! The logs of guests in the database, for every host to read. They are written over a connection of their
//! own, in transactions that do not wait for the disk, so a crash of the server may lose the last second. The
//! oldest lines are dropped when there are too many.

use std::sync::Arc;
use std::time::Duration;

use host_core::id::JobId;
use host_core::query::PAGE_ITEMS_MAX;
use host_core::time::Time;
use host_engine::StoreError;
use tokio_postgres::Row;
use uuid::Uuid;

use super::client::{Client, Connector, Readers, rows};
use super::pipeline::{Pipeline, Value, values};
use super::reader::PostgresReader;
use super::schema;
use super::target::Target;
use super::trouble::{CONNECT, Trouble, damaged, unreadable};
use super::wait::Driver;
use crate::logs::{self, DROP_LINES, LEVELS, LogEntry, LogPage, LogReader, LogWriter, SOURCES};

/// How often lines are written again after the connection broke, and the pause before each retry. A line
/// whose commit was not answered may then be stored twice.
const TRIES_MAX: u32 = 20;
const TRY_PAUSE: Duration = Duration::from_millis(250);

/// The size of a line beyond its text, in bytes: its columns and two index entries.
pub(super) const LINE_BYTES: i64 = 160;

/// Numbers and adds lines. Hosts take turns from here to the commit. Returns the total bytes.
const APPEND: &str = "WITH numbered AS (\
      UPDATE host_logs_end SET next = next + $1, bytes = bytes + $2 \
      RETURNING next - $1 AS first, bytes), \
    added AS (\
      INSERT INTO host_logs (n, job, attempt, at, level, source, message, fields) \
      SELECT first + line.ordinality - 1, job, attempt, at, level, source, message, fields \
      FROM numbered, unnest($3::uuid[], $4::bigint[], $5::bigint[], $6::smallint[], \
        $7::smallint[], $8::bytea[], $9::text[]) WITH ORDINALITY \
        AS line (job, attempt, at, level, source, message, fields, ordinality)) \
    SELECT bytes FROM numbered";

/// Drops the oldest lines if there are too many. Returns how many bytes are left and how many lines were
/// dropped.
const DROP: &str = "WITH oldest AS (\
      SELECT n, sum(size) OVER (ORDER BY n) - size AS before FROM (\
        SELECT n, $3::bigint + octet_length(message) + COALESCE(octet_length(fields), 0) AS size \
        FROM host_logs ORDER BY n LIMIT $2::bigint) AS lines), \
    gone AS (\
      DELETE FROM host_logs WHERE n IN (\
        SELECT n FROM oldest WHERE before < (SELECT bytes - $1 FROM host_logs_end)) \
      RETURNING $3::bigint + octet_length(message) + COALESCE(octet_length(fields), 0) AS size) \
    UPDATE host_logs_end SET bytes = bytes - (SELECT COALESCE(sum(size), 0)::bigint FROM gone) \
    WHERE bytes > $1 RETURNING bytes, (SELECT count(*) FROM gone)";

/// Removes the lines of jobs.
const FORGET: &str = "WITH gone AS (\
      DELETE FROM host_logs WHERE job = ANY($1) \
      RETURNING $2::bigint + octet_length(message) + COALESCE(octet_length(fields), 0) AS size) \
    UPDATE host_logs_end SET bytes = bytes - (SELECT sum(size)::bigint FROM gone) \
    WHERE EXISTS (SELECT FROM gone)";

/// A statement of a transaction.
type Step = (&'static str, Vec<Value>);

/// A writer of the logs of guests in a database.
pub struct PostgresLogs {
    driver: Arc<Driver>,
    connector: Connector,
    client: Option<Client>,
    pool: Readers,
    bytes_max: u64,
}

impl PostgresLogs {
    /// Opens the logs with a limit of `bytes_max`. Creates or migrates the tables.
    pub fn open(target: &Target, bytes_max: u64) -> Result<Self, StoreError> {
        let driver = Arc::new(Driver::start()?);
        let connector = Connector::new(target)?;
        let client = driver.wait(async {
            let client = connector
                .connect()
                .await
                .map_err(|trouble| trouble.into_error(CONNECT))?;
            schema::migrate(&client).await?;
            Ok(client)
        })?;
        Ok(Self {
            pool: connector.pool()?,
            driver,
            connector,
            client: Some(client),
            bytes_max,
        })
    }

    /// Runs statements in one transaction. Returns the rows of the last one.
    fn run(
        &mut self,
        operation: &'static str,
        steps: impl Fn() -> Vec<Step>,
    ) -> Result<Vec<Row>, StoreError> {
        let mut tries = 0;
        loop {
            let client = self.client.take().filter(|client| !client.is_closed());
            let connector = &self.connector;
            let running = async {
                let client = match client {
                    Some(client) => client,
                    None => connector.connect().await?,
                };
                let answered = transact(&client, operation, steps()).await;
                if answered.is_err() {
                    // If the connection is gone, so is the transaction.
                    let _ = client.batch_execute("ROLLBACK").await;
                }
                Ok((client, answered?))
            };
            match self.driver.wait(running) {
                Ok((client, rows)) => {
                    self.client = Some(client);
                    return Ok(rows);
                }
                Err(trouble @ Trouble::Fatal(_)) => return Err(trouble.into_error(operation)),
                Err(trouble) if tries >= TRIES_MAX => return Err(trouble.into_error(operation)),
                Err(_) => tries += 1,
            }
            self.driver
                .wait(async { tokio::time::sleep(TRY_PAUSE).await });
        }
    }

    /// Drops the oldest lines until the rest is within the limit.
    fn bound(&mut self) -> Result<(), StoreError> {
        let bytes_max = i64::try_from(self.bytes_max).unwrap_or(i64::MAX);
        loop {
            let values = move || values![bytes_max, i64::from(DROP_LINES), LINE_BYTES];
            let left = self.run("drop the oldest lines of the logs", || {
                vec![(DROP, values())]
            })?;
            let is_done =
                |row: &Row| row.get::<_, i64>(0) <= bytes_max || row.get::<_, i64>(1) == 0;
            if left.first().is_none_or(is_done) {
                return Ok(());
            }
        }
    }
}

/// Runs statements in one transaction, sent together. A crash of the server may lose this transaction, but no
/// other on the same connection.
async fn transact(
    client: &Client,
    operation: &'static str,
    steps: Vec<Step>,
) -> Result<Vec<Row>, Trouble> {
    let mut pipeline = Pipeline::new(client);
    pipeline.simple(operation, "BEGIN; SET LOCAL synchronous_commit = off");
    for (sql, values) in steps {
        pipeline.add(operation, sql, values).await?;
    }
    pipeline.simple(operation, "COMMIT");
    let mut answers = pipeline.run().await?;
    // The last answer is that of COMMIT.
    let _ = answers.pop();
    Ok(answers.pop().unwrap_or_default())
}

fn append_step(entries: &[LogEntry], fields: &[Option<String>]) -> Step {
    let sizes = entries.iter().zip(fields).map(|(entry, fields)| {
        let text = entry.message.len() + fields.as_ref().map_or(0, String::len);
        LINE_BYTES.saturating_add_unsigned(text as u64)
    });
    let values = values![
        i64::try_from(entries.len()).unwrap_or(i64::MAX),
        sizes.sum::<i64>(),
        entries.iter().map(|it| it.job.0).collect::<Vec<Uuid>>(),
        entries
            .iter()
            .map(|it| it.attempt.into())
            .collect::<Vec<i64>>(),
        entries.iter().map(|it| it.at.0).collect::<Vec<i64>>(),
        entries
            .iter()
            .map(|it| it.level as i16)
            .collect::<Vec<i16>>(),
        entries
            .iter()
            .map(|it| it.source as i16)
            .collect::<Vec<i16>>(),
        entries
            .iter()
            .map(|it| it.message.clone().into_bytes())
            .collect::<Vec<Vec<u8>>>(),
        fields.to_vec(),
    ];
    (APPEND, values)
}

impl LogWriter for PostgresLogs {
    fn append(&mut self, entries: Vec<LogEntry>) -> Result<(), StoreError> {
        let fields: Result<Vec<_>, _> = entries.iter().map(LogEntry::fields_json).collect();
        let fields = fields.map_err(|error| damaged("a line to write", error.to_string()))?;
        let step = || vec![append_step(&entries, &fields)];
        let bytes = self
            .run("append to the logs", step)?
            .first()
            .map_or(0, |row| row.get::<_, i64>(0));
        if bytes.unsigned_abs() > self.bytes_max {
            self.bound()?;
        }
        Ok(())
    }

    fn forget(&mut self, jobs: &[JobId]) -> Result<(), StoreError> {
        let ids: Vec<Uuid> = jobs.iter().map(|id| id.0).collect();
        let step = || vec![(FORGET, values![ids.clone(), LINE_BYTES])];
        self.run("remove a job's log", step).map(drop)
    }

    fn reader(&self) -> Result<Box<dyn LogReader>, StoreError> {
        Ok(Box::new(PostgresReader {
            driver: Arc::clone(&self.driver),
            pool: self.pool.clone(),
            interrupted: Arc::default(),
        }))
    }
}

impl LogReader for PostgresReader {
    fn page(&self, job: JobId, after: Option<u64>, limit: u32) -> Result<LogPage, StoreError> {
        let limit = limit.clamp(1, PAGE_ITEMS_MAX);
        let after = after.map_or(0, |n| i64::try_from(n).unwrap_or(i64::MAX));
        let sql = "SELECT n, attempt, at, level, source, message, fields FROM host_logs \
                   WHERE job = $1 AND n > $2 ORDER BY n LIMIT $3";
        let found = self.ask(&async |client: &Client| {
            let most = i64::from(limit) + 1;
            rows(client, "read a job's log", sql, &[&job.0, &after, &most]).await
        })?;
        let lines = found
            .iter()
            .map(|row| line(row, job))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(LogPage::of(lines, limit as usize))
    }
}

fn line(row: &Row, job: JobId) -> Result<(u64, LogEntry), StoreError> {
    let n: i64 = row.get(0);
    let wrong = |message: String| unreadable(format!("log line {n}"), &message);
    let place = |column: usize| usize::try_from(row.get::<_, i16>(column)).unwrap_or(usize::MAX);
    let unknown = || wrong("its level or source is unknown".to_owned());
    let fields: Option<&str> = row.get(6);
    let fields = fields.map(logs::fields).transpose();
    let message = String::from_utf8(row.get(5));
    let entry = LogEntry {
        job,
        attempt: u32::try_from(row.get::<_, i64>(1)).map_err(|error| wrong(error.to_string()))?,
        at: Time(row.get(2)),
        level: *LEVELS.get(place(3)).ok_or_else(unknown)?,
        source: *SOURCES.get(place(4)).ok_or_else(unknown)?,
        message: message.map_err(|error| wrong(error.to_string()))?,
        fields: fields
            .map_err(|error| wrong(error.to_string()))?
            .unwrap_or_default(),
    };
    Ok((n.unsigned_abs(), entry))
}
