//! The connection of a writer, and its row among the hosts: which process writes for the host, and which
//! of its batches landed.

use std::time::Duration;

use host_core::id::NodeId;
use host_core::time::Time;
use host_engine::StoreError;
use uuid::Uuid;

use super::client::{Client, Connector, Readers};
use super::fetch::{BEGIN, BatchOwner};
use super::flush::NEXT_WAKEUP;
use super::gate::Gate;
use super::target::Target;
use super::trouble::{CONNECT, Trouble};
use super::{Options, nodes, schema};

/// The pause before each time that a connection is tried again.
const CONNECT_PAUSE: Duration = Duration::from_millis(500);

/// A batch that was committed although its acknowledgement was lost.
pub(super) struct Landed {
    pub(super) next_wakeup: Option<Time>,
}

/// The connection of a writer.
pub(super) struct Session {
    connector: Connector,
    client: Client,
    /// Whether the connection broke.
    is_lost: bool,
    writer: BatchOwner,
    node: NodeId,
}

impl Session {
    /// Connects, prepares the schema, and replaces this host's earlier processes.
    pub(super) async fn open(
        target: &Target,
        node: NodeId,
        options: Options,
    ) -> Result<(Self, Readers), StoreError> {
        let connector = Connector::new(target)?;
        let client = connector
            .connect()
            .await
            .map_err(|trouble| trouble.into_error(CONNECT))?;
        schema::check_server(&client, options.allow_unsafe).await?;
        schema::migrate(&client).await?;
        let writer = nodes::enter(&client, node).await?;
        let pool = connector.pool()?;
        let session = Self {
            connector,
            client,
            is_lost: false,
            writer,
            node,
        };
        Ok((session, pool))
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn node(&self) -> NodeId {
        self.node
    }

    pub(super) fn connector(&self) -> &Connector {
        &self.connector
    }

    pub(super) fn writer(&self) -> BatchOwner {
        self.writer
    }

    /// Gives the next batch its number.
    pub(super) fn next_batch(&mut self) {
        self.writer.batch += 1;
    }

    /// Ends a transaction that failed.
    pub(super) async fn roll_back(&self) {
        // If the connection is gone, the server rolls back and the next statement fails.
        let _ = self.client.batch_execute("ROLLBACK").await;
    }

    /// Returns whether the connection broke and there is no other yet.
    pub(super) const fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Gives the connection up: it broke, or it does not answer.
    pub(super) const fn lose(&mut self) {
        self.is_lost = true;
    }

    /// Reconnects after a connection broke while a commit was on its way, however long that takes. Returns the result
    /// of the batch, if it was committed.
    pub(super) async fn connect_again(
        &mut self,
        gate: &Gate,
    ) -> Result<Option<Landed>, StoreError> {
        while !gate.is_stopping() {
            match self.try_to_connect().await {
                Ok(landed) => return Ok(landed),
                Err(Trouble::Fatal(error)) => return Err(error),
                Err(Trouble::Lost(_) | Trouble::Refused(_) | Trouble::Conflict) => {}
            }
            tokio::time::sleep(CONNECT_PAUSE).await;
        }
        Err(StoreError::Broken {
            operation: "find out what became of the last commit",
            message: "the host stops while the database is away".to_owned(),
        })
    }

    /// Connects once. Cancel safe.
    pub(super) async fn try_to_connect(&mut self) -> Result<Option<Landed>, Trouble> {
        let client = self.connector.connect().await?;
        let reading = |error| Trouble::of("read the number of the last batch", &error);
        client.batch_execute(BEGIN).await.map_err(reading)?;
        // The lock waits for an earlier connection that may be about to commit.
        let BatchOwner { node, epoch, batch } = self.writer;
        let sql = "SELECT epoch, batch FROM host_nodes WHERE number = $1 FOR UPDATE";
        let rows = client.ask(sql, &[&node]).await.map_err(reading)?;
        let there: Option<(i64, i64)> = rows.first().map(|row| (row.get(0), row.get(1)));
        if there.is_none_or(|(there, _)| there != epoch) {
            return Err(Trouble::Fatal(StoreError::Fenced));
        }
        let mut landed = None;
        if there.is_some_and(|(_, there)| there == batch) {
            let wakeup = client
                .ask(NEXT_WAKEUP, &[&Vec::<Uuid>::new()])
                .await
                .map_err(reading)?;
            landed = Some(Landed {
                next_wakeup: wakeup.first().and_then(|row| row.get(0)).map(Time),
            });
        }
        client.batch_execute("COMMIT").await.map_err(reading)?;
        self.client = client;
        self.is_lost = false;
        Ok(landed)
    }
}
