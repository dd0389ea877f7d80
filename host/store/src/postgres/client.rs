//! Connections to the database: the writer's, and a pool for readers. Behind a pooler, two transactions of a
//! connection may run on different server connections, so nothing is kept there between them.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::ops::Deref;
use std::sync::Arc;
use std::task::{Context, Poll};

use deadpool_postgres::{
    ClientWrapper, Connect, Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod,
};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use host_engine::StoreError;
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres::error::SqlState;
use tokio_postgres::{AsyncMessage, Config, Error, Row, RowStream, SimpleQueryMessage};

use super::target::{Security, Target};
use super::tls::Tls;
use super::trouble::{CONNECT, Trouble, connecting, doing};
use super::typed::{Values, as_sent, with_types};
use super::{ANSWER_TIMEOUT, CONNECT_TIMEOUT};

/// The most connections of the readers.
const READERS_MAX: usize = 10;

/// A connection, and the task that drives it.
type Dialled = (tokio_postgres::Client, JoinHandle<()>);

/// Polls for the next message of a connection.
type Messages =
    Box<dyn FnMut(&mut Context<'_>) -> Poll<Option<Result<AsyncMessage, Error>>> + Send>;

/// Settings of a transaction that reads or writes a whole store: each statement has a time limit, and the
/// server ends it soon after its client is gone, where the server's system can notice that.
pub(super) const LONG: &str = "SET LOCAL statement_timeout = '2h'; \
    DO $$ BEGIN PERFORM set_config('client_connection_check_interval', '2s', TRUE); \
    EXCEPTION WHEN OTHERS THEN NULL; END $$";

/// A setting that exists only on direct connections to the server.
const MARK: &str = "host.connection";

/// A connection.
pub(super) struct Client {
    held: ClientHandle,
    /// Whether the server's side stays the same, so that it keeps prepared statements.
    keeps_statements: bool,
}

enum ClientHandle {
    Own(ClientWrapper),
    Lent(Object),
}

impl Deref for Client {
    type Target = ClientWrapper;

    fn deref(&self) -> &ClientWrapper {
        match &self.held {
            ClientHandle::Own(client) => client,
            ClientHandle::Lent(client) => client,
        }
    }
}

impl Client {
    /// Runs a statement, which the server plans once if it can keep it.
    pub(super) async fn ask(&self, sql: &str, values: Values<'_>) -> Result<Vec<Row>, Error> {
        if !self.keeps_statements {
            return self.query_typed(sql, &with_types(values)).await;
        }
        let statement = self.prepare_cached(sql).await?;
        self.query(&statement, &as_sent(values)).await
    }

    /// Prepares a statement, so that its next use takes one round trip.
    pub(super) async fn ready(&self, sql: &str) -> Result<(), Error> {
        if self.keeps_statements {
            self.prepare_cached(sql).await?;
        }
        Ok(())
    }

    /// Runs a statement without values whose rows do not fit into memory.
    pub(super) async fn stream(&self, sql: &str) -> Result<RowStream, Error> {
        let none: [(&str, _); 0] = [];
        self.query_typed_raw(sql, none).await
    }
}

/// The connections of readers.
#[derive(Clone)]
pub(super) struct Readers {
    pool: Pool,
    connector: Connector,
}

impl Readers {
    pub(super) async fn get(&self) -> Result<Client, StoreError> {
        let lent = self.pool.get().await.map_err(|error| match error {
            PoolError::Backend(error) => {
                connecting(&self.connector.target, &error).into_error(CONNECT)
            }
            other => StoreError::Broken {
                operation: CONNECT,
                message: other.to_string(),
            },
        });
        Ok(self.connector.client(ClientHandle::Lent(lent?)))
    }

    /// Asks the server to end what a connection does, and closes it.
    pub(super) async fn cancel(&self, client: Client) {
        let token = client.cancel_token();
        let cancelling = token.cancel_query(self.connector.tls.clone());
        // Without an answer, the server notices in the end that the connection is closed.
        let _ = tokio::time::timeout(CONNECT_TIMEOUT, cancelling).await;
        if let ClientHandle::Lent(lent) = client.held {
            drop(Object::take(lent));
        }
    }
}

/// A connection whose messages are received.
pub(super) struct Listening {
    pub(super) client: tokio_postgres::Client,
    pub(super) messages: Messages,
}

/// Makes connections to the servers of one target.
#[derive(Clone)]
pub(super) struct Connector {
    target: Target,
    tls: Tls,
    /// Whether connections go directly to the server, not through a pooler. The first connection finds out.
    is_direct: Arc<OnceCell<bool>>,
}

impl Connector {
    pub(super) fn new(target: &Target) -> Result<Self, StoreError> {
        Ok(Self {
            target: target.clone(),
            tls: Tls::new(target)?,
            is_direct: Arc::default(),
        })
    }

    async fn dial(&self, config: &Config) -> Result<Dialled, Error> {
        if self.target.security == Security::Allow
            && let Ok(dialled) = self.dial_with(config, SslMode::Disable).await
        {
            return Ok(dialled);
        }
        self.dial_with(config, self.target.security.mode()).await
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "it ends with the client, and at the latest with the driver"
    )]
    async fn dial_with(&self, config: &Config, mode: SslMode) -> Result<Dialled, Error> {
        let mut config = config.clone();
        config.ssl_mode(mode);
        let (client, connection) = config.connect(self.tls.clone()).await?;
        // The client's users see how the connection ended.
        Ok((client, tokio::spawn(connection.map(drop))))
    }

    /// Makes a connection. Fails if the server accepts it but does not answer.
    pub(super) async fn connect(&self) -> Result<Client, Trouble> {
        let connected = tokio::time::timeout(ANSWER_TIMEOUT, self.introduce()).await;
        connected.unwrap_or_else(|_| {
            let seconds = ANSWER_TIMEOUT.as_secs();
            let target = self.target.with_origin();
            Err(Trouble::Lost(format!(
                "{target}: the server did not answer within {seconds} s"
            )))
        })
    }

    async fn introduce(&self) -> Result<Client, Trouble> {
        let connecting = |error| connecting(&self.target, &error);
        let marked = match self.is_direct.get() {
            Some(_) => None,
            None => self.dial_marked().await.map_err(connecting)?,
        };
        if !self.is_direct() && self.target.config.get_options().is_some() {
            return Err(Trouble::Fatal(StoreError::Broken {
                operation: CONNECT,
                message: "the pooler does not pass options on to the server: remove them from the \
                          address, and set the schema on the role with ALTER ROLE … SET search_path"
                    .to_owned(),
            }));
        }
        let (client, driven) = match marked {
            Some(dialled) => dialled,
            None => self.dial(&self.target.config).await.map_err(connecting)?,
        };
        Ok(self.client(ClientHandle::Own(ClientWrapper::new(client, driven))))
    }

    /// Finds out whether connections go directly to the server: whether a setting that was requested with the
    /// connection exists. Returns the connection, or `None` if the request was refused.
    async fn dial_marked(&self) -> Result<Option<Dialled>, Error> {
        let mark = format!("{:016x}", RandomState::new().build_hasher().finish());
        let mut config = self.target.config.clone();
        let options = config.get_options().unwrap_or_default();
        config.options(format!("{options} -c {MARK}={mark}"));
        let dialled = match self.dial(&config).await {
            Err(error) if error.code() == Some(&SqlState::PROTOCOL_VIOLATION) => None,
            dialled => Some(dialled?),
        };
        let mut is_direct = false;
        if let Some((client, _)) = &dialled {
            let sql = format!("SELECT current_setting('{MARK}', TRUE)");
            for message in client.simple_query(&sql).await? {
                if let SimpleQueryMessage::Row(row) = message {
                    is_direct = row.get(0) == Some(&mark);
                }
            }
        }
        // Another connection may have found out the same.
        let _ = self.is_direct.set(is_direct);
        Ok(dialled)
    }

    /// Returns whether connections are known to go directly to the server.
    pub(super) fn is_direct(&self) -> bool {
        self.is_direct.get().copied().unwrap_or(false)
    }

    fn client(&self, held: ClientHandle) -> Client {
        Client {
            held,
            keeps_statements: self.is_direct(),
        }
    }

    /// Makes a connection whose messages the caller receives, which drives it.
    pub(super) async fn listen(&self) -> Result<Listening, Trouble> {
        let connecting = |error| connecting(&self.target, &error);
        let mut config = self.target.config.clone();
        let mode = match self.target.security {
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
    pub(super) fn pool(&self) -> Result<Readers, StoreError> {
        let config = ManagerConfig {
            recycling_method: RecyclingMethod::Fast,
        };
        let manager = Manager::from_connect(self.target.config.clone(), self.clone(), config);
        let pool = Pool::builder(manager)
            .max_size(READERS_MAX)
            .build()
            .map_err(|error| StoreError::Broken {
                operation: "open the readers' connections",
                message: error.to_string(),
            })?;
        let connector = self.clone();
        Ok(Readers { pool, connector })
    }
}

impl Connect for Connector {
    fn connect(&self, _: &Config) -> BoxFuture<'_, Result<Dialled, Error>> {
        self.dial(&self.target.config).boxed()
    }
}

/// Runs one statement.
pub(super) async fn rows(
    client: &Client,
    operation: &'static str,
    sql: &str,
    values: Values<'_>,
) -> Result<Vec<Row>, StoreError> {
    client.ask(sql, values).await.map_err(doing(operation))
}
