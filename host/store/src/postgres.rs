//! The store on PostgreSQL. A batch is one transaction of a few round trips: the rows that its commands name
//! are read and locked together, the rules run on them, and all changes are written together. All SQL for
//! PostgreSQL is in this module and its submodules.

mod access;
pub mod admin;
pub mod aside;
mod available;
mod changes;
pub mod check;
mod claim;
mod client;
mod columns;
pub(crate) mod copy;
mod counts;
mod dependencies;
mod fetch;
mod flush;
mod gate;
mod job_batch_rows;
mod limit_rows;
mod limits;
mod list;
pub mod logs;
pub mod nodes;
pub mod others;
pub mod outside;
mod overlay;
mod passed;
mod pipeline;
mod reader;
mod reports;
mod rows;
pub mod schema;
mod session;
mod state;
mod state_rows;
mod table_rows;
mod tables;
pub mod target;
mod tls;
mod trouble;
mod typed;
mod wait;

use std::sync::Arc;
use std::time::Duration;

use host_core::id::NodeId;
use host_core::port::Clock;
use host_core::port::lease::Secret;
use host_core::time::Time;
use host_engine::{Bounds, Capacity, Command, Committed, Reader, Store, StoreError};

use self::client::{Connector, Readers};
use self::counts::Counts;
use self::fetch::BatchRows;
use self::flush::BatchRecord;
use self::gate::{Gate, given_up};
use self::nodes::Beats;
use self::others::PostgresOthers;
use self::reader::PostgresReader;
use self::rows::Transaction;
use self::session::Session;
use self::target::Target;
use self::trouble::{CONFLICT, Trouble};
use self::wait::Driver;
use crate::record::ChangesRow;

/// How long a connection may take to open.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a server may then take to become ready for statements.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// How long a connection may be silent before it counts as broken.
const SILENCE_MAX: Duration = Duration::from_secs(15);

/// The pause after the first of several conflicts with other hosts; the nth pause is n times as long.
const CONFLICT_PAUSE: Duration = Duration::from_millis(2);

/// How long claims that find enough jobs may miss jobs that other hosts have enqueued, in milliseconds.
const COUNTS_AGE_MS: u64 = 100;

/// When to look again for cascades that other hosts continue now, in milliseconds.
const CASCADE_PAUSE_MS: u64 = 50;

/// How a store is opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Whether to accept a server that may lose acknowledged data.
    pub allow_unsafe: bool,
}

/// A store in a database, with one of its writers.
pub struct PostgresStore {
    driver: Arc<Driver>,
    gate: Arc<Gate>,
    session: Session,
    pool: Readers,
    counts: Counts,
    /// Whether the counts have to be read again.
    stale: bool,
    counted_at: Time,
    /// Whether there were cascades to continue when the last batch was committed.
    has_cascades: bool,
    /// How many batches have met conflicts since the last that was committed.
    conflicts: u32,
    broken: Option<String>,
    bounds: Bounds,
}

/// Why a batch was not committed.
struct Failed {
    trouble: Trouble,
    /// The result, if the commit was sent and may have landed.
    sent: Option<Committed>,
}

impl From<Trouble> for Failed {
    fn from(trouble: Trouble) -> Self {
        let sent = None;
        Self { trouble, sent }
    }
}

impl PostgresStore {
    /// Opens the store for the host `node`, whose earlier processes can then no longer write. Creates or
    /// migrates the tables.
    pub fn open(target: &Target, node: NodeId, options: Options) -> Result<Self, StoreError> {
        let driver = Arc::new(Driver::start()?);
        let (session, pool) = driver.wait(Session::open(target, node, options))?;
        Ok(Self {
            driver,
            gate: Arc::default(),
            session,
            pool,
            counts: Counts::default(),
            stale: true,
            counted_at: Time(0),
            has_cascades: false,
            conflicts: 0,
            broken: None,
            bounds: Bounds::default(),
        })
    }

    /// Returns the id of the host.
    pub fn node(&self) -> NodeId {
        self.session.node()
    }

    /// Returns the connection for the host's heartbeats, which it must send from now on.
    pub fn heartbeat(&self) -> Beats {
        Beats {
            driver: Arc::clone(&self.driver),
            connector: self.session.connector().clone(),
            client: None,
            writer: self.session.writer(),
            reported: None,
        }
    }

    /// Returns the source of other nodes' changes, and whether it can listen for hints: at `hints`, or at the
    /// store's own address unless a pooler is in front of it.
    pub fn others(&self, hints: Option<&Target>) -> Result<(PostgresOthers, bool), StoreError> {
        let connector = self.session.connector();
        let listener = match hints {
            Some(target) => Some(Connector::new(target)?),
            None => connector.is_direct().then(|| connector.clone()),
        };
        let can_hint = listener.is_some();
        let others = PostgresOthers {
            listener,
            pool: self.pool.clone(),
            node: self.session.writer().node,
            hinted: Arc::default(),
            seen: tokio::sync::Mutex::default(),
            gate: Arc::clone(&self.gate),
        };
        Ok((others, can_hint))
    }

    /// Returns the secret that the hosts of this database share.
    pub fn secret(&self) -> Result<Secret, StoreError> {
        let sql = "SELECT bytes FROM host_secret";
        let client = self.session.client();
        let found = self
            .driver
            .wait(client::rows(client, "read the shared secret", sql, &[]))?;
        let bytes = found.first().map(|row| row.get::<_, &[u8]>(0));
        let secret = bytes.and_then(|bytes| bytes.try_into().ok());
        secret.ok_or_else(|| trouble::damaged("the table host_secret", "it has no secret"))
    }

    /// Runs a batch, and finds out whether it was committed. If not, the connection is ready for the next one, unless
    /// the database is away.
    fn run(&mut self, now: Time, batch: &[Command]) -> Result<Committed, StoreError> {
        self.gate.open();
        if self.session.is_lost() {
            self.connect()?;
        }
        self.session.next_batch();
        let named = BatchRows::by(batch);
        let Failed { trouble, sent } = match self.transact(now, &named, batch) {
            Ok(committed) => {
                self.conflicts = 0;
                return Ok(committed);
            }
            Err(failed) => failed,
        };
        self.stale = true;
        let message = match trouble {
            Trouble::Fatal(error @ StoreError::Away { .. }) => {
                self.session.lose();
                return Err(error);
            }
            Trouble::Fatal(error) => {
                self.driver.wait(self.session.roll_back());
                return Err(error);
            }
            Trouble::Refused(message) => {
                self.driver.wait(self.session.roll_back());
                message
            }
            Trouble::Conflict => {
                self.conflicts += 1;
                let pause = CONFLICT_PAUSE * self.conflicts;
                self.driver.wait(async {
                    self.session.roll_back().await;
                    tokio::time::sleep(pause).await;
                });
                CONFLICT.to_owned()
            }
            Trouble::Lost(message) => {
                self.session.lose();
                if let Some(mut committed) = sent {
                    let landed = self.driver.wait(self.session.connect_again(&self.gate))?;
                    if let Some(landed) = landed {
                        committed.next_wakeup = landed.next_wakeup;
                        return Ok(committed);
                    }
                } else {
                    self.connect()?;
                }
                message
            }
        };
        Err(StoreError::Failing {
            operation: "commit a batch",
            message,
        })
    }

    /// Connects after a connection broke before a commit was sent.
    fn connect(&mut self) -> Result<(), StoreError> {
        let connecting = self.session.try_to_connect();
        match self.driver.wait(self.gate.during(connecting)) {
            Ok(_) => Ok(()),
            Err(trouble) => Err(trouble.into_error("connect to the database again")),
        }
    }

    /// Runs a batch once.
    fn transact(
        &mut self,
        now: Time,
        named: &BatchRows,
        batch: &[Command],
    ) -> Result<Committed, Failed> {
        let client = self.session.client();
        let writer = self.session.writer();
        let beginning = fetch::begin(client, writer, named, &self.counts);
        let begun = self.driver.wait(self.gate.during(beginning))?;
        let is_old = now.since_ms(self.counted_at) >= COUNTS_AGE_MS;
        let settings = (begun.pauses, begun.limits_changed);
        if self.stale || settings != (self.counts.pauses, self.counts.limits_changed) {
            self.counts = self.driver.wait(self.gate.during(Counts::load(client)))?;
            (self.stale, self.counted_at) = (false, now);
        } else if !begun.is_behind {
            self.counts.next_change = begun.next_change;
        } else if is_old || self.counts.starve(batch) {
            // Until then, what other hosts have changed is counted soon enough.
            let catching_up = self.counts.catch_up(client, writer.node);
            self.driver.wait(self.gate.during(catching_up))?;
            self.counted_at = now;
        }
        let mut transaction = Transaction {
            driver: &self.driver,
            gate: &self.gate,
            client,
            node: self.session.node(),
            counts: &mut self.counts,
            overlay: begun.overlay,
            seqs: begun.seqs,
            has_cascades: self.has_cascades,
            claim_goes_on: false,
            trouble: None,
        };
        let mut committed = match host_engine::run(&mut transaction, now, &self.bounds, batch) {
            Ok(committed) => committed,
            Err(error) => {
                let trouble = transaction.trouble.take();
                return Err(trouble.unwrap_or(Trouble::Fatal(error)).into());
            }
        };
        let record = BatchRecord {
            node: writer.node,
            batch: writer.batch,
            now,
            rows: ChangesRow::of_batch(&committed.changes).map_err(Trouble::Fatal)?,
        };
        let is_elsewhere = self.has_cascades && !transaction.has_cascades;
        let mut overlay = transaction.overlay;
        if !self.gate.pass() {
            return Err(given_up().into());
        }
        let commit = flush::commit(client, &mut overlay, &mut self.counts, record);
        match self.driver.wait(commit) {
            Ok(next_wakeup) => {
                committed.next_wakeup = next_wakeup;
                self.has_cascades = next_wakeup == Some(Time(0));
                if self.has_cascades && is_elsewhere {
                    committed.next_wakeup = Some(now.plus_ms(CASCADE_PAUSE_MS));
                }
                Ok(committed)
            }
            Err(trouble) => {
                let sent = Some(committed);
                Err(Failed { trouble, sent })
            }
        }
    }
}

impl Store for PostgresStore {
    fn commit(&mut self, now: Time, batch: &[Command]) -> Result<Committed, StoreError> {
        if let Some(message) = &self.broken {
            return Err(StoreError::Broken {
                operation: "write after an earlier failure",
                message: message.clone(),
            });
        }
        let result = self.run(now, batch);
        if let Err(error) = &result
            && !matches!(
                error,
                StoreError::Full
                    | StoreError::Failing { .. }
                    | StoreError::Unreadable { .. }
                    | StoreError::Away { .. }
            )
        {
            self.broken = Some(error.to_string());
        }
        result
    }

    fn limit(&mut self, capacity: Capacity, clock: Arc<dyn Clock>) {
        let clock = Some(clock);
        self.bounds = Bounds { capacity, clock };
    }

    fn reader(&self) -> Result<Box<dyn Reader>, StoreError> {
        Ok(Box::new(PostgresReader {
            driver: Arc::clone(&self.driver),
            pool: self.pool.clone(),
            interrupted: Arc::default(),
        }))
    }
}
