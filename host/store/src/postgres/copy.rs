//! Reads and writes the rows of a store in a database, for a copy to or from a file.

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::StreamExt as _;
use host_core::id::NodeId;
use host_core::job::Lifecycle;
use host_core::lease::Hold;
use host_engine::StoreError;
use host_engine::state::tables::SPACES;
use host_engine::table::Range;
use tokio_postgres::RowStream;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::Type;

use super::client::{Client, Connector, LONG, rows};
use super::columns::{Column, row_of};
use super::logs::LINE_BYTES;
use super::target::Target;
use super::trouble::{CONNECT, damaged, doing};
use super::wait::Driver;
use super::{changes, nodes, schema};
use crate::parts::{HOT, Hot, PARTS, PartRows, Row, Value};
use crate::record::decode;
use crate::statement::{Dialect, names};

/// The query that reads the rows of a part in order, and the columns they are written to.
struct Part {
    read: &'static str,
    table: &'static str,
    columns: &'static str,
}

/// A part whose rows are written to the columns that are read.
macro_rules! rows {
    ($table:literal, $columns:expr, $order:literal) => {
        Part {
            read: concat!("SELECT ", $columns, " FROM ", $table, " ORDER BY ", $order),
            table: $table,
            columns: $columns,
        }
    };
}

/// The columns of a job.
macro_rules! job_columns {
    () => {
        "seq, id, state, queue, priority, suspect, handler, runner, wakeup_at, body, rank, waits_for, batch"
    };
}

/// The parts that are no tables.
const SQL: [Part; HOT] = [
    rows!("host_queues", "name, paused", "name"),
    rows!("host_live", job_columns!(), "seq"),
    rows!("host_ended", job_columns!(), "seq"),
    rows!(
        "host_payloads",
        "job, params, wire, unique_key, extra",
        "job"
    ),
    rows!(
        "host_attempts",
        "job, number, body, progress, result",
        "job, number"
    ),
    rows!("host_failures", "job, attempt, body", "job"),
    rows!("host_unique_keys", "queue, key, job", "queue, key"),
    rows!(
        "host_dependencies",
        "prerequisite, dependent, seq",
        "prerequisite, seq"
    ),
    rows!("host_cascades", "n, prerequisite, state", "n"),
    Part {
        read: "SELECT first, count, at, body FROM host_changes ORDER BY first",
        table: "host_changes",
        columns: "first, count, at, body, node, batch",
    },
    Part {
        read: "SELECT principal, sum(jobs)::bigint FROM host_owned GROUP BY principal \
               HAVING sum(jobs) <> 0 ORDER BY principal",
        table: "host_owned",
        columns: "principal, jobs",
    },
    rows!(
        "host_limit_running",
        "number, key, since, job",
        "number, key, since, job"
    ),
    rows!(
        "host_logs",
        "n, job, attempt, at, level, source, message, fields",
        "n"
    ),
];

/// Returns the columns of a part, which have the same meaning in all engines.
pub(crate) fn columns(part: usize) -> Cow<'static, str> {
    match PARTS[part].rows {
        PartRows::Hot(hot) => SQL[hot as usize].columns.into(),
        PartRows::Table(table) => names(table).into(),
    }
}

/// Returns the query that reads a part.
pub(super) fn reading(part: usize) -> Cow<'static, str> {
    match PARTS[part].rows {
        PartRows::Hot(hot) => SQL[hot as usize].read.into(),
        // Spaces without keys stay for a while.
        PartRows::Table(table) if table.name == SPACES.name => Dialect::Postgres
            .select(table, &Range::all().marked())
            .sql
            .into(),
        PartRows::Table(table) => Dialect::Postgres.select(table, &Range::all()).sql.into(),
    }
}

/// Returns the table of a part.
pub(super) fn table(part: usize) -> Cow<'static, str> {
    match PARTS[part].rows {
        PartRows::Hot(hot) => SQL[hot as usize].table.into(),
        PartRows::Table(table) => Dialect::Postgres.name(table).into(),
    }
}

/// Returns the statement that counts the jobs of queues for a node.
pub(super) fn count_queues(node: &str) -> String {
    format!(
        "INSERT INTO host_counts (node, queue, state, jobs) \
         SELECT {node}, queue, state, count(*) FROM host_live GROUP BY queue, state \
         UNION ALL \
         SELECT {node}, queue, state, count(*) FROM host_ended GROUP BY queue, state \
         UNION ALL \
         SELECT {node}, queue, 8, count(*) FROM host_live \
         WHERE state = 2 AND runner IS NOT NULL GROUP BY queue;"
    )
}

/// The rows of one part, in their order.
pub(crate) struct Rows {
    driver: Arc<Driver>,
    stream: Pin<Box<RowStream>>,
}

impl Rows {
    pub(crate) fn next(&mut self) -> Result<Option<Row>, StoreError> {
        let row = self
            .driver
            .wait(self.stream.next())
            .transpose()
            .map_err(doing("read the store"))?;
        let values = row.as_ref().map(row_of).transpose();
        values.map_err(doing("read the store"))
    }
}

/// A connection in a transaction.
pub(super) struct Open {
    driver: Arc<Driver>,
    client: Client,
}

impl Open {
    /// Connects as the only user of the store, and begins a transaction.
    pub(super) fn begin(
        target: &Target,
        allow_unsafe: bool,
        begin: &str,
    ) -> Result<Self, StoreError> {
        let driver = Arc::new(Driver::start()?);
        let client = driver.wait(async {
            let client = Connector::new(target)?
                .connect()
                .await
                .map_err(|trouble| trouble.into_error(CONNECT))?;
            schema::check_server(&client, allow_unsafe).await?;
            schema::migrate(&client).await?;
            while changes::number(&client).await? {}
            // The other side may be slow between two rows.
            let patient = "SET LOCAL idle_in_transaction_session_timeout = 0";
            let begin = format!("{begin}; {patient}; {LONG}");
            let ready = client.batch_execute(&begin).await;
            ready.map_err(doing("use the database"))?;
            nodes::be_alone(&client).await?;
            Ok(client)
        })?;
        Ok(Self { driver, client })
    }

    pub(super) fn driver(&self) -> &Driver {
        &self.driver
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn rows(&self, part: usize) -> Result<Rows, StoreError> {
        let sql = reading(part);
        let asked = self.client.stream(&sql);
        let stream = self.driver.wait(asked).map_err(doing("read the store"))?;
        Ok(Rows {
            driver: Arc::clone(&self.driver),
            stream: Box::pin(stream),
        })
    }

    fn ask(&self, operation: &'static str, sql: &str) -> Result<Vec<Value>, StoreError> {
        let found = self.all(operation, sql)?.into_iter();
        Ok(found.filter_map(|row| row.into_iter().next()).collect())
    }

    /// Returns all rows of a query.
    pub(super) fn all(&self, operation: &'static str, sql: &str) -> Result<Vec<Row>, StoreError> {
        let found = self.driver.wait(rows(&self.client, operation, sql, &[]))?;
        let rows: Result<_, _> = found.iter().map(row_of).collect();
        rows.map_err(doing(operation))
    }

    fn number(&self, operation: &'static str, sql: &str) -> Result<i64, StoreError> {
        match self.ask(operation, sql)?.first() {
            Some(Value::Int(number)) => Ok(*number),
            _ => Err(damaged("the database", "a required row is missing")),
        }
    }

    pub(super) fn run(&self, operation: &'static str, sql: &str) -> Result<(), StoreError> {
        let run = self.driver.wait(self.client.batch_execute(sql));
        run.map_err(doing(operation))
    }
}

/// Reads a store that no host uses.
pub(crate) struct Source {
    open: Open,
    node: NodeId,
}

impl Source {
    pub(crate) fn open(target: &Target) -> Result<Self, StoreError> {
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        let open = Open::begin(target, true, begin)?;
        let reading = "find the host that owns the database";
        let first = open.driver.wait(nodes::first(&open.client))?;
        let node = first.ok_or_else(|| StoreError::Broken {
            operation: "copy the store",
            message: "no host has used the database".to_owned(),
        })?;
        for body in open.ask(reading, "SELECT body FROM host_live WHERE state = 3")? {
            let Value::Bytes(body) = body else { continue };
            let job: Lifecycle = decode(&body, || "a running job".to_owned())?;
            let held = job.lease.filter(|lease| lease.hold == Hold::Connection);
            if held.is_some_and(|lease| !lease.ends_with(node)) {
                return Err(StoreError::Broken {
                    operation: "copy the store",
                    message: format!(
                        "a host that is gone still holds job {}, and a store in a file could not take it \
                         back; start a host on the database and stop it again",
                        job.id
                    ),
                });
            }
        }
        Ok(Self { open, node })
    }

    /// Returns the host that the store belongs to.
    pub(crate) fn node(&self) -> NodeId {
        self.node
    }

    /// Counts the rows of each part.
    pub(crate) fn counts(&self) -> Result<[u64; PARTS.len()], StoreError> {
        let mut counts = [0; PARTS.len()];
        for (part, count) in counts.iter_mut().enumerate() {
            let sql = format!("SELECT count(*) FROM {}", table(part));
            let counted = self.open.number("count the rows of the store", &sql)?;
            *count = counted.unsigned_abs();
        }
        Ok(counts)
    }

    pub(crate) fn rows(&mut self, part: usize) -> Result<Rows, StoreError> {
        self.open.rows(part)
    }

    /// Returns the place of the next new job.
    pub(crate) fn next_seq(&self) -> Result<i64, StoreError> {
        let sql = "SELECT last_value + CASE WHEN is_called THEN 1 ELSE 0 END FROM host_seq";
        self.open.number("read the place of the next job", sql)
    }
}

/// The rows that are being written.
type Writing = Pin<Box<BinaryCopyInWriter>>;

/// Writes a store into a database that has none, in one transaction.
pub(crate) struct Sink {
    open: Open,
    /// The number of the host that the store belongs to.
    node: i64,
    writing: Option<Writing>,
    /// Whether the rows of the part also name the node that wrote them.
    names_node: bool,
}

impl Sink {
    /// Refuses a database that holds any data.
    pub(crate) fn open(
        target: &Target,
        allow_unsafe: bool,
        node: NodeId,
    ) -> Result<Self, StoreError> {
        let open = Open::begin(target, allow_unsafe, "BEGIN")?;
        let checking = "check that the database is empty";
        let tables = (0..PARTS.len()).map(table);
        for table in tables.chain(["host_nodes".into()]) {
            let sql = format!("SELECT count(*) FROM (SELECT FROM {table} LIMIT 1) AS first");
            if open.number(checking, &sql)? > 0 {
                return Err(StoreError::Broken {
                    operation: "copy into the database",
                    message: format!(
                        "a host has used it: its table {table} has rows; use a new database or schema"
                    ),
                });
            }
        }
        // The host counts as gone: the first node that starts takes back what it ran.
        let sql = "WITH entered AS (\
                     INSERT INTO host_nodes (number, id, epoch, batch, version, seen_at) \
                     VALUES (nextval('host_node_numbers'), $1, 0, 0, $2, now()) RETURNING number), \
                   left_behind AS (\
                     INSERT INTO host_beats (node, epoch, beat, life, ahead, seen_at) \
                     SELECT number, 0, 0, 1, 0, now() FROM entered) \
                   SELECT number FROM entered";
        let version = env!("CARGO_PKG_VERSION");
        let entered = open.driver.wait(async {
            rows(&open.client, "enter the host", sql, &[&node.0, &version]).await
        })?;
        let node = entered
            .first()
            .map(|row| row.get::<_, i32>(0))
            .ok_or_else(|| damaged("the table host_nodes", "it did not accept a row"))?;
        Ok(Self {
            open,
            node: node.into(),
            writing: None,
            names_node: false,
        })
    }

    /// Begins to write a part.
    pub(crate) fn begin(&mut self, part: usize) -> Result<(), StoreError> {
        let (table, columns) = (table(part), columns(part));
        let client = &self.open.client;
        let begun = async {
            let shape = client
                .prepare(&format!("SELECT {columns} FROM {table}"))
                .await?;
            let types: Vec<Type> = shape
                .columns()
                .iter()
                .map(|it| it.type_().clone())
                .collect();
            let into = format!("COPY {table} ({columns}) FROM STDIN BINARY");
            Ok(BinaryCopyInWriter::new(
                client.copy_in(&into).await?,
                &types,
            ))
        };
        let begun = self
            .open
            .driver
            .wait(begun)
            .map_err(doing("write the copy"))?;
        self.writing = Some(Box::pin(begun));
        self.names_node = matches!(PARTS[part].rows, PartRows::Hot(Hot::Changes));
        Ok(())
    }

    pub(crate) fn write(&mut self, row: &Row) -> Result<(), StoreError> {
        let Some(writing) = &mut self.writing else {
            return Ok(());
        };
        let origin = [Value::Int(self.node), Value::Int(0)];
        let origin = &origin[..if self.names_node { 2 } else { 0 }];
        let values: Vec<_> = row.iter().chain(origin).map(Column).collect();
        let written = self.open.driver.wait(writing.as_mut().write_raw(values));
        written.map_err(doing("write the copy"))
    }

    /// Ends the part.
    pub(crate) fn finish(&mut self) -> Result<(), StoreError> {
        let Some(mut writing) = self.writing.take() else {
            return Ok(());
        };
        let finished = self.open.driver.wait(writing.as_mut().finish());
        finished.map(drop).map_err(doing("write the copy"))
    }

    /// Writes the numbers of queues, and the next numbers of jobs and changes.
    pub(crate) fn number(&self, next_seq: i64, next_change: u64) -> Result<(), StoreError> {
        let queues = count_queues(&self.node.to_string());
        let sql = format!(
            "{queues} UPDATE host_log SET next_change = {next_change}; \
             UPDATE host_audit_end SET next = last.number + 1, hash = last.hash \
             FROM (SELECT number, hash FROM host_audit ORDER BY number DESC LIMIT 1) AS last; \
             UPDATE host_logs_end SET (next, bytes) = \
             (SELECT COALESCE(max(n), 0) + 1, COALESCE(sum({LINE_BYTES} + octet_length(message) \
              + COALESCE(octet_length(fields), 0)), 0) FROM host_logs); \
             SELECT setval('host_seq', {next_seq}, FALSE)"
        );
        self.open.run("write the counters of queues", &sql)
    }

    /// Reads back a part that was written.
    pub(crate) fn rows(&self, part: usize) -> Result<Rows, StoreError> {
        self.open.rows(part)
    }

    /// Makes the copy durable, and has the server analyze it, so that it plans well immediately.
    pub(crate) fn commit(self) -> Result<(), StoreError> {
        self.open.run("commit the copy", "COMMIT")?;
        let tables: Vec<_> = (0..PARTS.len()).map(table).collect();
        // Otherwise the server does this later.
        let _ = self
            .open
            .run("analyze", &format!("ANALYZE {}", tables.join(", ")));
        Ok(())
    }
}
