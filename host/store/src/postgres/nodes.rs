//! The nodes that share the database: joining them, heartbeats on a connection of their own, and fencing a
//! dead node.

use std::sync::Arc;
use std::time::Duration;

use host_core::id::NodeId;
use host_core::time::Time;
use host_engine::node::{
    ClusterView, Components, Dead, GONE_KEPT, GONE_KEPT_MAX, HeartbeatRow, LEASE, Life, NodeInfo,
    NodeRecord,
};
use host_engine::{Heartbeat, StoreError};
use serde::Serialize;

use super::changes::NEXT;
use super::client::{Client, Connector, rows};
use super::fetch::BatchOwner;
use super::others::{self, COUNTERS};
use super::reports;
use super::trouble::{Trouble, damaged, doing};
use super::typed::Values;
use super::wait::Driver;

/// How long a heartbeat may take before its connection is given up.
const BEAT_TIMEOUT: Duration = Duration::from_secs(2);

/// Takes over the row of this host, so that its earlier processes can no longer write.
pub(super) async fn enter(client: &Client, node: NodeId) -> Result<BatchOwner, StoreError> {
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
    let found = rows(client, "register this host", sql, &[&node.0, &version]).await?;
    let row = found
        .first()
        .ok_or_else(|| damaged("the table host_nodes", "it did not accept a row"))?;
    let number: i32 = row.get(0);
    others::forget_mail(client, number).await?;
    reports::forget(client, number).await?;
    Ok(BatchOwner {
        node: number,
        epoch: row.get(1),
        batch: row.get(2),
    })
}

/// Keeps all hosts from joining until the open transaction ends, and fails if one is alive.
pub(super) async fn be_alone(client: &Client) -> Result<(), StoreError> {
    let locking = doing("lock out other hosts");
    let lock = "LOCK TABLE host_nodes IN SHARE MODE";
    client.batch_execute(lock).await.map_err(locking)?;
    let lease_s = LEASE.as_secs();
    let sql = format!(
        "SELECT node FROM host_beats WHERE life = 0 AND seen_at > now() - interval '{lease_s} s'"
    );
    let living = rows(client, "find live hosts", &sql, &[]).await?;
    if living.is_empty() {
        return Ok(());
    }
    Err(StoreError::Broken {
        operation: "use the database",
        message: format!(
            "another host writes to it; stop all of its hosts, and wait {lease_s} s after one that \
             was killed"
        ),
    })
}

/// Returns the first host that used the database.
pub(super) async fn first(client: &Client) -> Result<Option<NodeId>, StoreError> {
    let sql = "SELECT id FROM host_nodes ORDER BY number LIMIT 1";
    let found = rows(client, "find the host that owns the database", sql, &[]).await?;
    Ok(found.first().map(|row| NodeId(row.get(0))))
}

/// Raises the epoch of a dead node, in the open transaction. Returns what it is known by then, `None` if it is not dead.
pub(super) async fn fence(client: &Client, dead: &Dead) -> Result<Option<Dead>, Trouble> {
    let failed = |error| Trouble::of("fence a node", &error);
    // In the order in which a node that joins takes both rows. The first waits for an ongoing batch of the
    // node.
    let sql = "UPDATE host_nodes SET epoch = epoch + 1 WHERE id = $1 AND epoch = $2 \
               RETURNING number";
    let fenced = client
        .ask(sql, &[&dead.node.0, &dead.epoch])
        .await
        .map_err(failed)?;
    let Some(row) = fenced.first() else {
        return Ok(None);
    };
    let number: i32 = row.get(0);
    let sql = "UPDATE host_beats SET epoch = epoch + 1 \
               WHERE node = $1 AND epoch = $2 AND beat = $3 AND life < 2 RETURNING epoch";
    let values: Values<'_> = &[&number, &dead.epoch, &dead.beat];
    let fenced = client.ask(sql, values).await.map_err(failed)?;
    if let Some(row) = fenced.first() {
        let epoch = row.get(0);
        return Ok(Some(Dead { epoch, ..*dead }));
    }
    let sql = "UPDATE host_nodes SET epoch = epoch - 1 WHERE number = $1";
    client.ask(sql, &[&number]).await.map_err(failed)?;
    Ok(None)
}

/// Records, in the transaction that has fenced a node, that nothing of it is left to take.
pub(super) async fn end_take_over(client: &Client, fenced: &Dead) -> Result<(), Trouble> {
    let sql = "UPDATE host_beats SET life = 2 FROM host_nodes WHERE number = node AND id = $1";
    let ended = client.ask(sql, &[&fenced.node.0]).await;
    ended
        .map(drop)
        .map_err(|error| Trouble::of("end the takeover of a node", &error))
}

/// The heartbeats of one node, on a connection of their own.
pub struct Beats {
    pub(super) driver: Arc<Driver>,
    pub(super) connector: Connector,
    pub(super) client: Option<Client>,
    pub(super) writer: BatchOwner,
    /// What this host last reported about itself.
    pub(super) reported: Option<(NodeInfo, Arc<Components>)>,
}

/// Reports that node `$1` lives, and its info and components if they have changed. The lock timeout is for
/// this statement only.
const BEAT: &str = "WITH mine AS (\
      UPDATE host_beats SET beat = beat + 1, seen_at = now(), ahead = $3 \
      WHERE node = $1 AND epoch = $2 AND life = 0 \
      AND set_config('lock_timeout', '1s', TRUE) <> '' RETURNING node), \
    info AS (\
      INSERT INTO host_node_info AS old (node, epoch, info, components) \
      SELECT node, $2, coalesce($4::text, ''), coalesce($5::text, '') FROM mine \
      WHERE $4::text IS NOT NULL OR $5::text IS NOT NULL \
      ON CONFLICT (node) DO UPDATE SET epoch = EXCLUDED.epoch, \
      info = coalesce($4::text, old.info), components = coalesce($5::text, old.components)) \
    SELECT id, beats.epoch, beat, life, ahead, ";

const BEATS: &str =
    " FROM host_beats AS beats JOIN host_nodes ON number = beats.node ORDER BY number";

/// Returns the statement of a heartbeat.
fn beat() -> String {
    let (lease_s, kept_s) = (LEASE.as_secs(), GONE_KEPT.as_secs());
    format!(
        "{BEAT}beats.seen_at > now() - interval '{lease_s} s', \
         EXISTS (SELECT FROM mine), (extract(epoch FROM clock_timestamp()) * 1000)::bigint, \
         node = $1 AND drain, life = 2 AND beats.seen_at < now() - interval '{kept_s} s', \
         {NEXT}, {COUNTERS}{BEATS}"
    )
}

const LEAVE: &str = "UPDATE host_beats SET beat = beat + 1, life = 1, seen_at = now() \
                     WHERE node = $1 AND epoch = $2 AND life = 0 RETURNING node";

/// Forgets nodes that are gone and that nothing refers to: those that left more than `$1` seconds ago, and
/// all but the last `$2`. A node that comes back at this moment has another epoch and stays. The counts of a
/// forgotten node move to node `$3`.
const FORGET: &str = "WITH old AS (\
      SELECT node, epoch FROM host_beats WHERE life = 2 AND (seen_at < now() - $1::bigint * interval '1 s' \
      OR node IN (SELECT node FROM host_beats WHERE life = 2 ORDER BY seen_at DESC, node OFFSET $2))), \
    gone AS (\
      DELETE FROM host_nodes USING old WHERE number = old.node AND host_nodes.epoch = old.epoch \
      RETURNING number), \
    counted AS (DELETE FROM host_counts USING gone WHERE node = number RETURNING queue, state, jobs), \
    moved AS (\
      INSERT INTO host_counts AS mine (node, queue, state, jobs) \
      SELECT $3::integer, queue, state, sum(jobs)::bigint FROM counted GROUP BY queue, state \
      ORDER BY queue, state \
      ON CONFLICT (node, queue, state) DO UPDATE SET jobs = mine.jobs + EXCLUDED.jobs), \
    infos AS (DELETE FROM host_node_info USING gone WHERE node = number), \
    mail AS (DELETE FROM host_mail USING gone WHERE node = number), \
    reports AS (DELETE FROM host_progress USING gone WHERE node = number) \
    DELETE FROM host_beats USING gone WHERE node = number RETURNING node";

const KNOWN: &str = "SELECT id, version, life, \
      greatest(0, extract(epoch FROM now() - beats.seen_at) * 1000)::bigint, drain, info, \
      components, ahead \
    FROM host_beats AS beats JOIN host_nodes ON number = beats.node \
    LEFT JOIN host_node_info AS infos ON infos.node = beats.node \
    AND (infos.epoch = beats.epoch OR life = 2) \
    ORDER BY number";

/// Returns all nodes, in the order in which they joined.
pub(super) async fn known(client: &Client) -> Result<Vec<NodeRecord>, StoreError> {
    let found = rows(client, "read the nodes", KNOWN, &[]).await?;
    let known = |row: &tokio_postgres::Row| {
        let life = life(row.get(2));
        // A later version's info may not be readable.
        let info: Option<NodeInfo> = row
            .get::<_, Option<&str>>(5)
            .and_then(|info| serde_json::from_str(info).ok());
        let components: Option<Components> = row
            .get::<_, Option<&str>>(6)
            .and_then(|components| serde_json::from_str(components).ok());
        let (info, components) = match life {
            // Of a dead node, only the name and the executors are kept.
            Life::Taken => (info.map(left), None),
            Life::Lives | Life::Left => (info, components),
        };
        NodeRecord {
            id: NodeId(row.get(0)),
            version: row.get(1),
            life,
            silent_ms: row.get::<_, i64>(3).unsigned_abs(),
            ahead_ms: row.get(7),
            drain: row.get(4),
            info,
            components: components.map(Arc::new).unwrap_or_default(),
        }
    };
    Ok(found.iter().map(known).collect())
}

/// Returns the part of a node's info that is kept: its name and its executors.
fn left(info: NodeInfo) -> NodeInfo {
    NodeInfo {
        name: info.name,
        offers: info.offers,
        ..NodeInfo::default()
    }
}

fn json(value: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| damaged("the info of a node", error.to_string()))
}

fn life(kept: i16) -> Life {
    match kept {
        0 => Life::Lives,
        1 => Life::Left,
        _ => Life::Taken,
    }
}

impl Beats {
    /// Runs a statement, on a new connection if there is none.
    fn ask(
        &mut self,
        operation: &'static str,
        sql: &str,
        values: Values<'_>,
    ) -> Result<Vec<tokio_postgres::Row>, StoreError> {
        let (client, connector) = (self.client.take(), &self.connector);
        let asking = async {
            let client = if let Some(client) = client.filter(|client| !client.is_closed()) {
                client
            } else {
                connector.connect().await?
            };
            let rows = client
                .ask(sql, values)
                .await
                .map_err(|error| Trouble::of(operation, &error))?;
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
    fn beat(
        &mut self,
        ahead_ms: i64,
        info: &NodeInfo,
        components: &Arc<Components>,
    ) -> Result<ClusterView, StoreError> {
        let BatchOwner { node, epoch, .. } = self.writer;
        let reported = self.reported.as_ref();
        let text = (reported.map(|(info, _)| info) != Some(info)).then(|| json(info));
        let loaded =
            (reported.map(|(_, loaded)| loaded) != Some(components)).then(|| json(&**components));
        let (text, loaded) = (text.transpose()?, loaded.transpose()?);
        let rows = self.ask(
            "send a heartbeat",
            &beat(),
            &[
                &node,
                &epoch,
                &ahead_ms,
                &text.as_deref(),
                &loaded.as_deref(),
            ],
        )?;
        let Some(first) = rows.first().filter(|row| row.get(6)) else {
            return Err(StoreError::Fenced);
        };
        if text.is_some() || loaded.is_some() {
            self.reported = Some((info.clone(), Arc::clone(components)));
        }
        let at = Time(first.get(7));
        let seen = |row: &tokio_postgres::Row| HeartbeatRow {
            id: NodeId(row.get(0)),
            epoch: row.get(1),
            beat: row.get(2),
            life: life(row.get(3)),
            ahead_ms: row.get(4),
            is_fresh: row.get(5),
        };
        let nodes: Vec<HeartbeatRow> = rows.iter().map(seen).collect();
        let gone = nodes.iter().filter(|node| node.life == Life::Taken).count();
        if gone > GONE_KEPT_MAX as usize || rows.iter().any(|row| row.get(9)) {
            self.forget();
        }
        Ok(ClusterView {
            at,
            nodes,
            counters: others::counters(first, 10),
            drain: rows.iter().any(|row| row.get(8)),
        })
    }

    fn leave(&mut self) -> Result<(), StoreError> {
        let BatchOwner { node, epoch, .. } = self.writer;
        self.ask("announce the end of this host", LEAVE, &[&node, &epoch])
            .map(drop)
    }
}

impl Beats {
    /// Forgets nodes. If that fails, the next heartbeat tries it again.
    fn forget(&mut self) {
        let kept_s = i64::try_from(GONE_KEPT.as_secs()).unwrap_or(i64::MAX);
        let kept_max = i64::from(GONE_KEPT_MAX);
        let node = self.writer.node;
        let values: Values<'_> = &[&kept_s, &kept_max, &node];
        let _ = self.ask("delete nodes that are gone", FORGET, values);
    }
}
