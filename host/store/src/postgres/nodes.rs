//! The nodes that share the database: taking a place among them, heartbeats on a connection of its own,
//! and fencing one that is dead.

use std::sync::Arc;
use std::time::Duration;

use host_core::id::NodeId;
use host_core::node::{Dead, Life, Roll, Seen};
use host_core::time::Time;

use super::client::{Client, Connector, rows};
use super::fetch::Writer;
use super::others::{self, PULSE};
use super::trouble::{Trouble, damaged, doing};
use super::typed::Values;
use super::wait::Driver;
use crate::error::StoreError;
use crate::store::Heartbeat;

/// How long a heartbeat may take. Then its connection is given up.
const BEAT_TIMEOUT: Duration = Duration::from_secs(2);

/// Takes the row of this host, so that its earlier processes write no more.
pub(super) async fn enter(client: &Client, node: NodeId) -> Result<Writer, StoreError> {
    let sql = "WITH entered AS (\
                 INSERT INTO host_nodes (number, id, epoch, batch, version, seen_at) \
                 VALUES (nextval('host_node_numbers'), $1, 1, 0, $2, now()) \
                 ON CONFLICT (id) DO UPDATE SET epoch = host_nodes.epoch + 1, \
                 version = EXCLUDED.version, seen_at = EXCLUDED.seen_at \
                 RETURNING number, epoch, batch), \
               living AS (\
                 INSERT INTO host_beats AS old (node, epoch, beat, life, ahead, seen_at) \
                 SELECT number, epoch, 1, 0, 0, now() FROM entered \
                 ON CONFLICT (node) DO UPDATE SET epoch = EXCLUDED.epoch, beat = old.beat + 1, \
                 life = 0, seen_at = EXCLUDED.seen_at) \
               SELECT number, epoch, batch FROM entered";
    let version = env!("CARGO_PKG_VERSION");
    let found = rows(client, "enter this host", sql, &[&node.0, &version]).await?;
    let row = found
        .first()
        .ok_or_else(|| damaged("the table host_nodes", "it did not take a row"))?;
    let number: i32 = row.get(0);
    others::forget_mail(client, number).await?;
    Ok(Writer {
        node: number,
        epoch: row.get(1),
        batch: row.get(2),
    })
}

/// Keeps all hosts from entering until the open transaction ends, and refuses if one lives.
pub(super) async fn be_alone(client: &Client) -> Result<(), StoreError> {
    let locking = doing("become the only user of the database");
    let lock = "LOCK TABLE host_nodes IN SHARE MODE";
    client.batch_execute(lock).await.map_err(locking)?;
    let sql = "SELECT node FROM host_beats WHERE life = 0 AND seen_at > now() - interval '10 s'";
    let living = rows(client, "look for hosts that live", sql, &[]).await?;
    if living.is_empty() {
        return Ok(());
    }
    Err(StoreError::Broken {
        operation: "use the database",
        message:
            "another host writes to it; stop all of its hosts, and wait 10 s after one that was \
                  killed"
                .to_owned(),
    })
}

/// Returns the host that has had the database first.
pub(super) async fn first(client: &Client) -> Result<Option<NodeId>, StoreError> {
    let sql = "SELECT id FROM host_nodes ORDER BY number LIMIT 1";
    let found = rows(client, "look for the host of the database", sql, &[]).await?;
    Ok(found.first().map(|row| NodeId(row.get(0))))
}

/// Raises the epoch of a dead node, in the open transaction. Returns false if it is not dead.
pub(super) async fn fence(client: &Client, dead: &Dead) -> Result<bool, Trouble> {
    let failed = |error| Trouble::of("fence a node", &error);
    // In the order in which a node that enters takes both rows. The first waits for a batch of the node
    // that is under way.
    let sql = "UPDATE host_nodes SET epoch = epoch + 1 WHERE id = $1 AND epoch = $2 \
               RETURNING number";
    let fenced = client.ask(sql, &[&dead.node.0, &dead.epoch]).await;
    let fenced = fenced.map_err(failed)?;
    let Some(row) = fenced.first() else {
        return Ok(false);
    };
    let number: i32 = row.get(0);
    let sql = "UPDATE host_beats SET epoch = epoch + 1, life = 2 \
               WHERE node = $1 AND epoch = $2 AND beat = $3 AND life < 2 RETURNING node";
    let values: Values<'_> = &[&number, &dead.epoch, &dead.beat];
    let taken = client.ask(sql, values).await;
    if !taken.map_err(failed)?.is_empty() {
        return Ok(true);
    }
    let sql = "UPDATE host_nodes SET epoch = epoch - 1 WHERE number = $1";
    client.ask(sql, &[&number]).await.map_err(failed)?;
    Ok(false)
}

/// The heartbeats of one node, on a connection of their own.
pub struct Beats {
    pub(super) driver: Arc<Driver>,
    pub(super) connector: Connector,
    pub(super) client: Option<Client>,
    pub(super) writer: Writer,
}

/// The setting holds for this statement, which waits no longer for a lock.
const BEAT: &str = "WITH mine AS (\
      UPDATE host_beats SET beat = beat + 1, seen_at = now(), ahead = $3 \
      WHERE node = $1 AND epoch = $2 AND life = 0 \
      AND set_config('lock_timeout', '1s', TRUE) <> '' RETURNING node) \
    SELECT id, beats.epoch, beat, life, ahead, beats.seen_at > now() - interval '10 s', \
      EXISTS (SELECT FROM mine), (extract(epoch FROM clock_timestamp()) * 1000)::bigint, ";

const BEATS: &str =
    " FROM host_beats AS beats JOIN host_nodes ON number = beats.node ORDER BY number";

const LEAVE: &str = "UPDATE host_beats SET beat = beat + 1, life = 1, seen_at = now() \
                     WHERE node = $1 AND epoch = $2 AND life = 0 RETURNING node";

impl Beats {
    /// Runs a statement, on a new connection if there is none.
    fn ask(
        &mut self,
        operation: &'static str,
        sql: &str,
        ahead_ms: Option<i64>,
    ) -> Result<Vec<tokio_postgres::Row>, StoreError> {
        let (client, connector) = (self.client.take(), &self.connector);
        let Writer { node, epoch, .. } = self.writer;
        let asking = async {
            let client = if let Some(client) = client.filter(|client| !client.is_closed()) {
                client
            } else {
                connector.connect().await?
            };
            let rows = match ahead_ms {
                Some(ahead) => client.ask(sql, &[&node, &epoch, &ahead]).await,
                None => client.ask(sql, &[&node, &epoch]).await,
            };
            let rows = rows.map_err(|error| Trouble::of(operation, &error))?;
            Ok((client, rows))
        };
        let limited = async { tokio::time::timeout(BEAT_TIMEOUT, asking).await };
        let (client, rows) = self
            .driver
            .wait(limited)
            .unwrap_or_else(|_| Err(Trouble::Lost("it does not answer".to_owned())))
            .map_err(|trouble: Trouble| trouble.into_error(operation))?;
        self.client = Some(client);
        Ok(rows)
    }
}

impl Heartbeat for Beats {
    fn beat(&mut self, ahead_ms: i64) -> Result<Roll, StoreError> {
        let rows = self.ask(
            "say that this host lives",
            &format!("{BEAT}{PULSE}{BEATS}"),
            Some(ahead_ms),
        )?;
        let Some(first) = rows.first().filter(|row| row.get(6)) else {
            return Err(StoreError::Fenced);
        };
        let at = Time(first.get(7));
        let seen = |row: &tokio_postgres::Row| Seen {
            id: NodeId(row.get(0)),
            epoch: row.get(1),
            beat: row.get(2),
            life: match row.get::<_, i16>(3) {
                0 => Life::Lives,
                1 => Life::Left,
                _ => Life::Taken,
            },
            ahead_ms: row.get(4),
            is_fresh: row.get(5),
        };
        let nodes = rows.iter().map(seen).collect();
        let pulse = others::pulse(first, 8);
        Ok(Roll { at, nodes, pulse })
    }

    fn leave(&mut self) -> Result<(), StoreError> {
        self.ask("say that this host has ended", LEAVE, None)
            .map(drop)
    }
}
