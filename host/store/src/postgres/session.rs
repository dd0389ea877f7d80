//! The connection of a writer, and its row among the hosts: which process writes for the host, and which
//! of its batches landed.

use std::time::Duration;

use deadpool_postgres::{ClientWrapper, Pool};
use host_core::id::NodeId;

use super::Options;
use super::client::{Connector, rows};
use super::fetch::Writer;
use super::schema;
use super::target::Target;
use super::trouble::{Trouble, damaged};
use crate::error::StoreError;

/// How often a lost connection is made again, and the pause before each time.
const CONNECTS_MAX: u32 = 120;
const CONNECT_PAUSE: Duration = Duration::from_millis(500);

/// How often a host looks whether another has given the database up, and the pause between.
const LOOKS_MAX: u32 = 15;
const LOOK_PAUSE: Duration = Duration::from_millis(200);

/// What every connection of a writer is told: a transaction whose host has gone ends by itself, and
/// no statement waits for a lock for long.
const SETTINGS: &str = "SET idle_in_transaction_session_timeout = '10s'; SET lock_timeout = '10s'";

/// A batch that landed although nobody said so.
pub(super) struct Landed {
    /// The number of its first change, if it has any.
    pub(super) first_change: Option<i64>,
}

/// The connection of a writer.
pub(super) struct Session {
    connector: Connector,
    client: ClientWrapper,
    writer: Writer,
    node: NodeId,
    options: Options,
}

impl Session {
    /// Connects, prepares the schema, and takes the place of this host's earlier processes.
    pub(super) async fn open(
        target: &Target,
        fresh: NodeId,
        options: Options,
    ) -> Result<(Self, Pool), StoreError> {
        let connector = Connector::new(target)?;
        let client = connector.connect().await;
        let client = client.map_err(|trouble| trouble.into_error("connect to the database"))?;
        schema::check_server(&client, options.allow_unsafe).await?;
        schema::migrate(&client).await?;
        let ready = set_up(&client, options).await;
        ready.map_err(|trouble| trouble.into_error("become the writer of the database"))?;
        let node = if options.shared {
            fresh
        } else {
            only_host(&client).await?.unwrap_or(fresh)
        };
        let writer = take_place(&client, node).await?;
        let pool = connector.pool()?;
        let session = Self {
            connector,
            client,
            writer,
            node,
            options,
        };
        Ok((session, pool))
    }

    pub(super) fn client(&self) -> &ClientWrapper {
        &self.client
    }

    pub(super) fn node(&self) -> NodeId {
        self.node
    }

    pub(super) fn writer(&self) -> Writer {
        self.writer
    }

    /// Gives the next batch its number.
    pub(super) fn next_batch(&mut self) {
        self.writer.batch += 1;
    }

    /// Ends a transaction that failed.
    pub(super) async fn roll_back(&self) {
        // If the connection is gone, the server rolls back and the next statement tells.
        let _rolled_back = self.client.batch_execute("ROLLBACK").await;
    }

    /// Connects again after a connection broke. Returns how the batch landed that was sent last, if it
    /// did.
    pub(super) async fn connect_again(
        &mut self,
        message: &str,
    ) -> Result<Option<Landed>, StoreError> {
        let mut latest = message.to_owned();
        for _ in 0..CONNECTS_MAX {
            match self.try_to_connect().await {
                Ok(landed) => return Ok(landed),
                Err(Trouble::Fatal(error)) => return Err(error),
                Err(Trouble::Lost(message)) => latest = message,
                Err(Trouble::Conflict) => {}
            }
            tokio::time::sleep(CONNECT_PAUSE).await;
        }
        Err(Trouble::Lost(latest).into_error("connect to the database again"))
    }

    async fn try_to_connect(&mut self) -> Result<Option<Landed>, Trouble> {
        let client = self.connector.connect().await?;
        set_up(&client, self.options).await?;
        // The lock waits for an earlier connection that may still be about to commit.
        let Writer { node, epoch, batch } = self.writer;
        let reading = |error| Trouble::of("read the number of the last batch", &error);
        let sql = "SELECT epoch, batch FROM host_nodes WHERE number = $1 FOR UPDATE";
        let row = client.query_opt(sql, &[&node]).await.map_err(reading)?;
        let there: Option<(i64, i64)> = row.map(|row| (row.get(0), row.get(1)));
        if there.is_none_or(|(there, _)| there != epoch) {
            return Err(Trouble::Fatal(StoreError::Broken {
                operation: "write to the database",
                message: "a later process of this host has taken its place".to_owned(),
            }));
        }
        let mut landed = None;
        if there.is_some_and(|(_, there)| there == batch) {
            let sql = "SELECT first FROM host_changes WHERE node = $1 AND batch = $2";
            let row = client.query_opt(sql, &[&node, &batch]).await;
            let first_change = row.map_err(reading)?.map(|row| row.get(0));
            landed = Some(Landed { first_change });
        }
        self.client = client;
        Ok(landed)
    }
}

/// Prepares a new connection. If the database is for one host alone, waits until no other has it.
async fn set_up(client: &ClientWrapper, options: Options) -> Result<(), Trouble> {
    let setting = |error| Trouble::of("set up a connection", &error);
    client.batch_execute(SETTINGS).await.map_err(setting)?;
    if options.shared {
        return Ok(());
    }
    be_alone(client).await
}

/// Takes the lock of a database that is for one host alone. Waits a moment for another to give it up.
pub(super) async fn be_alone(client: &ClientWrapper) -> Result<(), Trouble> {
    let setting = |error| Trouble::of("become the writer of the database", &error);
    for _ in 0..LOOKS_MAX {
        let sql = "SELECT pg_try_advisory_lock(hashtext('host: the only writer'), \
                   hashtext(current_schema()))";
        let row = client.query_one(sql, &[]).await.map_err(setting)?;
        if row.get(0) {
            return Ok(());
        }
        tokio::time::sleep(LOOK_PAUSE).await;
    }
    Err(Trouble::Fatal(StoreError::Broken {
        operation: "become the writer of the database",
        message: "another host writes to it; stop that one, or give this one a database of its own"
            .to_owned(),
    }))
}

/// Returns the host that has had the database so far.
pub(super) async fn only_host(client: &ClientWrapper) -> Result<Option<NodeId>, StoreError> {
    let sql = "SELECT id FROM host_nodes ORDER BY number LIMIT 1";
    let found = rows(client, "look for the host of the database", sql, &[]).await?;
    Ok(found.first().map(|row| NodeId(row.get(0))))
}

/// Takes the row of this host, so that its earlier processes write no more.
async fn take_place(client: &ClientWrapper, node: NodeId) -> Result<Writer, StoreError> {
    let sql = "INSERT INTO host_nodes (number, id, epoch, batch, version, seen_at) \
               VALUES (nextval('host_node_numbers'), $1, 1, 0, $2, now()) \
               ON CONFLICT (id) DO UPDATE SET epoch = host_nodes.epoch + 1, \
               version = EXCLUDED.version, seen_at = EXCLUDED.seen_at \
               RETURNING number, epoch, batch";
    let version = env!("CARGO_PKG_VERSION");
    let found = rows(client, "enter this host", sql, &[&node.0, &version]).await?;
    let row = found
        .first()
        .ok_or_else(|| damaged("the table host_nodes", "it did not take a row"))?;
    Ok(Writer {
        node: row.get(0),
        epoch: row.get(1),
        batch: row.get(2),
    })
}
