//! What a node must learn soon about the others: hints over a listening connection, change counters in one
//! small query, and messages for the node.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use host_core::id::{JobId, NodeId};
use host_core::transition::Effect;
use host_engine::node::{ChangeCounters, Reported};
use host_engine::{Followed, Others, StoreError};
use tokio::sync::{Mutex, Notify};
use tokio_postgres::{AsyncMessage, Row};

use super::client::{Client, Connector, Listening, Readers, rows};
use super::gate::Gate;
use super::trouble::{Trouble, damaged};
use super::typed::Values;
use super::{changes, reports};
use crate::record::decode;

/// The pause before reconnecting.
const PAUSE: Duration = Duration::from_secs(1);

/// The name of the channel. The schema distinguishes stores in one database.
const CHANNEL: &str = "SELECT 'host_' || md5(current_schema())";

/// The columns of [`ChangeCounters`] after [`changes::NEXT`], in a query about node `$1`.
pub(super) const COUNTERS: &str = "(SELECT pauses FROM host_log), \
    (SELECT md5(string_agg(name || ' ' || current, ',' ORDER BY name)) FROM host_components), \
    EXISTS (SELECT FROM host_mail WHERE host_mail.node = $1)";

/// Reads the columns of [`ChangeCounters`], which begin at `first`.
pub(super) fn counters(row: &Row, first: usize) -> ChangeCounters {
    ChangeCounters {
        next_change: row.get::<_, i64>(first).unsigned_abs(),
        pauses: row.get(first + 1),
        components: row.get::<_, Option<String>>(first + 2).unwrap_or_default(),
        has_mail: row.get(first + 3),
    }
}

/// The other nodes, as seen by one.
pub struct PostgresOthers {
    /// Connections that can listen for hints, if there are any.
    pub(super) listener: Option<Connector>,
    pub(super) pool: Readers,
    pub(super) node: i32,
    pub(super) hinted: Arc<Notify>,
    /// The number of the last report read from each other node.
    pub(super) seen: Mutex<BTreeMap<i32, i64>>,
    pub(super) gate: Arc<Gate>,
}

impl PostgresOthers {
    async fn ask(
        &self,
        operation: &'static str,
        sql: &str,
        values: Values<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        let client = self.pool.get().await?;
        rows(&client, operation, sql, values).await
    }

    /// Listens until the connection is lost.
    async fn listen_once(&self, connector: &Connector) -> Result<(), Trouble> {
        let named = self
            .ask("listen to the database", CHANNEL, &[])
            .await
            .map_err(Trouble::Fatal)?;
        let channel = named.first().map(|row| row.get::<_, String>(0));
        let Listening {
            client,
            mut messages,
        } = connector.listen().await?;
        let asking = async {
            let failed = |error| Trouble::of("listen to the database", &error);
            let listen = format!("LISTEN {}", channel.unwrap_or_default());
            client.batch_execute(&listen).await.map_err(failed)?;
            // Hints before this are lost.
            self.hinted.notify_one();
            std::future::pending::<Result<(), Trouble>>().await
        };
        let listening = async {
            while let Some(message) = poll_fn(|context| messages(context)).await {
                match message {
                    Ok(AsyncMessage::Notification(_)) => self.hinted.notify_one(),
                    Ok(_) => {}
                    Err(error) => return Err(Trouble::of("listen to the database", &error)),
                }
            }
            Err(Trouble::Lost("the connection has ended".to_owned()))
        };
        tokio::select! {
            ended = asking => ended,
            ended = listening => ended,
        }
    }
}

impl Others for PostgresOthers {
    fn listen(&self) -> BoxFuture<'_, ()> {
        async {
            let Some(connector) = &self.listener else {
                return std::future::pending().await;
            };
            loop {
                // Without hints, heartbeats show what has changed.
                let _ = self.listen_once(connector).await;
                tokio::time::sleep(PAUSE).await;
            }
        }
        .boxed()
    }

    fn hinted(&self) -> BoxFuture<'_, ()> {
        self.hinted.notified().boxed()
    }

    fn hint(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        async {
            let sql = "SELECT pg_notify('host_' || md5(current_schema()), '')";
            self.ask("notify other nodes", sql, &[]).await.map(drop)
        }
        .boxed()
    }

    fn change_counters(&self) -> BoxFuture<'_, Result<ChangeCounters, StoreError>> {
        async {
            let operation = "read the changes of other nodes";
            let sql = format!("SELECT {}, {COUNTERS}", changes::NEXT);
            let found = self.ask(operation, &sql, &[&self.node]).await?;
            let row = found
                .first()
                .ok_or_else(|| damaged("the table host_log", "it is empty"))?;
            Ok(counters(row, 0))
        }
        .boxed()
    }

    fn changes(&self, after: u64, limit: u32) -> BoxFuture<'_, Result<Followed, StoreError>> {
        async move {
            let client = self.pool.get().await?;
            let read = changes::read(&client, after, limit).await?;
            let by_others = read.nodes.iter().map(|node| *node != self.node).collect();
            Ok(Followed {
                items: read.changes.items,
                by_others,
            })
        }
        .boxed()
    }

    fn give_up(&self) {
        self.gate.give_up();
    }

    fn stop(&self) {
        self.gate.stop();
    }

    fn mail(&self, limit: u32) -> BoxFuture<'_, Result<Vec<(JobId, Effect)>, StoreError>> {
        async move {
            let sql = "DELETE FROM host_mail WHERE id IN (SELECT id FROM host_mail WHERE node = $1 \
                       ORDER BY id LIMIT $2) RETURNING id, job, body";
            let operation = "read messages for this node";
            let values: Values<'_> = &[&self.node, &i64::from(limit)];
            let mut found = self.ask(operation, sql, values).await?;
            found.sort_by_key(|row| row.get::<_, i64>(0));
            let message = |row: &Row| {
                let job = JobId(row.get(1));
                let effect = decode(row.get(2), || format!("a message about job {job}"))?;
                Ok((job, effect))
            };
            found.iter().map(message).collect()
        }
        .boxed()
    }

    fn report<'a>(
        &'a self,
        reported: &'a [Reported],
        over: &'a [JobId],
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            let client = self.pool.get().await?;
            reports::publish(&client, self.node, reported, over).await
        }
        .boxed()
    }

    fn reported(&self) -> BoxFuture<'_, Result<Vec<Reported>, StoreError>> {
        async {
            let mut seen = self.seen.lock().await;
            let client = self.pool.get().await?;
            reports::read_new(&client, self.node, &mut seen).await
        }
        .boxed()
    }

    fn set_drain(&self, node: NodeId, drain: bool) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            let sql = "UPDATE host_beats SET drain = $2 FROM host_nodes \
                       WHERE number = node AND id = $1";
            let operation = "drain or resume a node";
            self.ask(operation, sql, &[&node.0, &drain]).await.map(drop)
        }
        .boxed()
    }
}

/// Removes messages to earlier processes of a node.
pub(super) async fn forget_mail(client: &Client, node: i32) -> Result<(), StoreError> {
    let sql = "DELETE FROM host_mail WHERE node = $1";
    rows(client, "delete old messages", sql, &[&node])
        .await
        .map(drop)
}
