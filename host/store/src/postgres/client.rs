//! Connections to the database: the writer's, and a pool for readers. One statement on them.

use std::task::{Context, Poll};

use deadpool_postgres::{ClientWrapper, Connect, Manager, ManagerConfig, Pool, RecyclingMethod};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::task::JoinHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client, Config, Error, Row};

use super::target::{Security, Target};
use super::tls::Tls;
use super::trouble::{Trouble, doing};
use crate::error::StoreError;

/// The most connections of the readers.
const READERS_MAX: usize = 8;

/// A connection, and the task that drives it.
type Dialled = (Client, JoinHandle<()>);

/// Polls for the next message of a connection.
type Messages =
    Box<dyn FnMut(&mut Context<'_>) -> Poll<Option<Result<AsyncMessage, Error>>> + Send>;

/// A connection whose messages are taken.
pub(super) struct Listening {
    pub(super) client: Client,
    pub(super) messages: Messages,
}

/// Makes connections to the servers of one target.
#[derive(Clone)]
pub(super) struct Connector {
    config: Config,
    security: Security,
    tls: Tls,
}

impl Connector {
    pub(super) fn new(target: &Target) -> Result<Self, StoreError> {
        Ok(Self {
            config: target.config.clone(),
            security: target.security,
            tls: Tls::new(target)?,
        })
    }

    async fn dial(&self) -> Result<Dialled, tokio_postgres::Error> {
        if self.security == Security::Allow
            && let Ok(dialled) = self.dial_with(SslMode::Disable).await
        {
            return Ok(dialled);
        }
        self.dial_with(self.security.mode()).await
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "it ends with the client, and at the latest with the driver"
    )]
    async fn dial_with(&self, mode: SslMode) -> Result<Dialled, tokio_postgres::Error> {
        let mut config = self.config.clone();
        config.ssl_mode(mode);
        let (client, connection) = config.connect(self.tls.clone()).await?;
        // Whoever uses the client learns how the connection ended.
        Ok((client, tokio::spawn(connection.map(drop))))
    }

    pub(super) async fn connect(&self) -> Result<ClientWrapper, Trouble> {
        let dialled = self.dial().await;
        let (client, driven) =
            dialled.map_err(|error| Trouble::of("connect to the database", &error))?;
        Ok(ClientWrapper::new(client, driven))
    }

    /// Makes a connection whose messages the caller takes. They drive it.
    pub(super) async fn listen(&self) -> Result<Listening, Trouble> {
        let connecting = |error| Trouble::of("connect to the database", &error);
        let mut config = self.config.clone();
        let mode = match self.security {
            Security::Allow => SslMode::Prefer,
            other => other.mode(),
        };
        config.ssl_mode(mode);
        let connected = config.connect(self.tls.clone()).await;
        let (client, mut connection) = connected.map_err(connecting)?;
        Ok(Listening {
            client,
            messages: Box::new(move |context| connection.poll_message(context)),
        })
    }

    /// Makes a pool of connections, which are opened when they are needed.
    pub(super) fn pool(&self) -> Result<Pool, StoreError> {
        let config = ManagerConfig {
            recycling_method: RecyclingMethod::Fast,
        };
        let manager = Manager::from_connect(self.config.clone(), self.clone(), config);
        let pool = Pool::builder(manager).max_size(READERS_MAX).build();
        pool.map_err(|error| StoreError::Broken {
            operation: "make the readers' connections",
            message: error.to_string(),
        })
    }
}

impl Connect for Connector {
    fn connect(&self, _: &Config) -> BoxFuture<'_, Result<Dialled, tokio_postgres::Error>> {
        self.dial().boxed()
    }
}

/// Runs one prepared statement.
pub(super) async fn rows(
    client: &ClientWrapper,
    operation: &'static str,
    sql: &str,
    values: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, StoreError> {
    let asked = async {
        let statement = client.prepare_cached(sql).await?;
        client.query(&statement, values).await
    };
    asked.await.map_err(doing(operation))
}
