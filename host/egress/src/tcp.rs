//! Connections of guests to servers that speak other protocols than HTTP. The broker dials, begins TLS and signs in; then it
//! passes bytes on between the server and a socket that the guest's cell has. A guest sees no secret and no address.
//!
//! Idle connections are kept for further attempts if the grant says so, in their first state, and never for another grant,
//! revision or account.

mod account;
mod login;
pub(crate) mod postgres;
mod redis;
mod relay;
mod smtp;
mod starttls;
mod stream;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use host_core::egress::{HttpError, HttpErrorKind, Pass};
use host_core::tcp_grant::{GrantKind, TcpGrant, TlsStart};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncRead as _, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsConnector;

use self::account::Account;
use self::postgres::{BackendKey, Traffic};
use self::relay::Watch;
pub(crate) use self::relay::{ByteCounts, relay};
pub(crate) use self::stream::Stream;
use crate::dial::{Dial, DialError};
use crate::permit::{Permit, Writer};
use crate::secrets::Secrets;

/// How long connecting, TLS and signing in may take together.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a connection may take to become what it was, or to cancel a query.
const RESET_TIMEOUT: Duration = Duration::from_secs(5);

/// How long an idle connection is kept.
const KEPT_FOR: Duration = Duration::from_secs(30);

/// The most connections that wait to be returned to their pools.
const USED_MAX: usize = 1_024;

/// The most grants whose connections are kept.
const POOLS_MAX: usize = 1_024;

/// What opens connections: the resolver and the authorities of now.
#[derive(Clone)]
pub(crate) struct Opener {
    pub(crate) dial: Dial,
    pub(crate) tls: Arc<ClientConfig>,
}

/// How a connection begins for a guest.
#[derive(Clone)]
enum Opening {
    Plain {
        /// What the server said first, before the guest had the connection.
        greeting: Option<String>,
    },
    Postgres(postgres::Welcome),
    Redis,
}

/// An open connection, signed in.
struct Connection {
    stream: Stream,
    writer: Writer,
    opening: Opening,
}

/// The place of a grant in a pass.
#[derive(Clone, Copy)]
pub(crate) struct GrantPlace {
    pub(crate) kind: GrantKind,
    pub(crate) index: usize,
}

impl GrantPlace {
    /// Returns the grant, if the pass has it.
    pub(crate) fn grant(self, pass: &Pass) -> Result<&TcpGrant, HttpError> {
        let grants = match self.kind {
            GrantKind::Tcp => &pass.tcp,
            GrantKind::Sql => &pass.sql,
        };
        let refused =
            || HttpError::new(HttpErrorKind::NotGranted, "the manifest has no such grant");
        grants.get(self.index).ok_or_else(refused)
    }
}

/// The component, its revision, the handler, and the place of the grant in its list.
type Key = (String, u32, String, &'static str, usize);

/// The connections of one grant.
struct Pool {
    places: Arc<Semaphore>,
    kept_max: usize,
    kept: RefCell<Vec<IdleConnection>>,
}

struct IdleConnection {
    connection: Connection,
    account: Account,
    since: Instant,
}

impl Pool {
    fn new(grant: &TcpGrant) -> Self {
        Self {
            places: Arc::new(Semaphore::new(grant.connections_max() as usize)),
            kept_max: grant.pool.unwrap_or_default() as usize,
            kept: RefCell::default(),
        }
    }

    /// Takes a kept connection that its server has not closed.
    fn take(&self, account: &Account) -> Option<Connection> {
        let mut kept = self.kept.borrow_mut();
        kept.retain(|it| it.account == *account && it.since.elapsed() < KEPT_FOR);
        while let Some(IdleConnection { mut connection, .. }) = kept.pop() {
            if is_silent(&mut connection.stream) {
                return Some(connection);
            }
        }
        None
    }

    fn expire(&self) {
        let mut kept = self.kept.borrow_mut();
        kept.retain(|it| it.since.elapsed() < KEPT_FOR);
    }
}

/// Returns whether a server has neither said anything nor closed the connection.
fn is_silent(stream: &mut Stream) -> bool {
    let mut byte = [0; 1];
    let mut room = ReadBuf::new(&mut byte);
    let mut context = Context::from_waker(Waker::noop());
    Pin::new(stream)
        .poll_read(&mut context, &mut room)
        .is_pending()
}

/// The connections of all grants.
pub(crate) struct Connections {
    pools: RefCell<HashMap<Key, Rc<Pool>>>,
    used: mpsc::Sender<Loan>,
}

impl Connections {
    /// Makes a task that returns connections to their pools. Must be called in the runtime.
    pub(crate) fn new() -> Self {
        let (used, mut receiver) = mpsc::channel::<Loan>(USED_MAX);
        spawn_local(async move {
            while let Some(used) = receiver.recv().await {
                spawn_local(used.recycle());
            }
        });
        Self {
            pools: RefCell::default(),
            used,
        }
    }

    fn pool(&self, key: Key, grant: &TcpGrant) -> Rc<Pool> {
        let mut pools = self.pools.borrow_mut();
        if pools.len() >= POOLS_MAX && !pools.contains_key(&key) {
            pools.retain(|_, pool| Rc::strong_count(pool) > 1);
        }
        Rc::clone(
            pools
                .entry(key)
                .or_insert_with(|| Rc::new(Pool::new(grant))),
        )
    }

    /// Waits for one of the grant's places, and opens a connection or takes a kept one. Cancel safe.
    pub(crate) async fn open(
        &self,
        pass: &Pass,
        place: GrantPlace,
        secrets: &RefCell<Secrets>,
        opener: Opener,
        permit: &Arc<Permit>,
    ) -> Result<Session, HttpError> {
        let grant = place.grant(pass)?;
        let account = Account::of_grant(grant, &secrets.borrow())?;
        let key = (
            pass.component.clone(),
            pass.revision,
            pass.handler.clone(),
            place.kind.as_str(),
            place.index,
        );
        let pool = self.pool(key, grant);
        // It is never closed.
        let place = Arc::clone(&pool.places).acquire_owned().await.ok();
        let kept = account.as_ref().and_then(|account| pool.take(account));
        let connection = if let Some(connection) = kept {
            connection.writer.set(Some(permit));
            connection
        } else {
            let opening = connect(&opener, grant, account.as_ref(), permit);
            timeout(OPEN_TIMEOUT, opening).await.unwrap_or_else(|_| {
                let seconds = OPEN_TIMEOUT.as_secs();
                let message = format!("{} did not answer within {seconds} s", grant.to);
                Err(HttpError::new(HttpErrorKind::TimedOut, message))
            })?
        };
        let watch = match &connection.opening {
            Opening::Plain { .. } => Watch::Nothing,
            Opening::Postgres(_) => Watch::Postgres(postgres::Traffic::default()),
            Opening::Redis => Watch::Redis(redis::Commands::default()),
        };
        Ok(Session {
            used: Some(Loan {
                connection,
                watch: RefCell::new(watch),
                is_sending: Cell::new(false),
                account,
                grant: grant.clone(),
                opener,
                pool,
                _place: place,
            }),
            share: None,
            to: self.used.clone(),
        })
    }
}

/// Connects, begins TLS and signs in.
async fn connect(
    opener: &Opener,
    grant: &TcpGrant,
    account: Option<&Account>,
    permit: &Arc<Permit>,
) -> Result<Connection, HttpError> {
    let to = &grant.to;
    let mut socket = opener
        .dial
        .open(to.host(), to.port())
        .await
        .map_err(|error| dial_error(grant, &error))?;
    let writer = socket.writer();
    writer.set(Some(permit));
    let (mut greeting, mut server_hash) = (None, None);
    let mut stream = if grant.tls == TlsStart::None {
        Stream::Plain(socket)
    } else {
        let refused = |error: io::Error| {
            let message = format!("{to} does not begin TLS: {error}");
            HttpError::new(HttpErrorKind::Unreachable, message)
        };
        greeting = starttls::ask(&mut socket, grant.tls)
            .await
            .map_err(refused)?;
        let tls = begin_tls(opener, to.host(), socket)
            .await
            .map_err(|error| {
                let kind = match error.get_ref().and_then(|it| it.downcast_ref()) {
                    Some(rustls::Error::InvalidCertificate(_)) => HttpErrorKind::CertificateRefused,
                    _ => HttpErrorKind::Unreachable,
                };
                HttpError::new(kind, format!("no TLS with {to}: {error}"))
            })?;
        server_hash = certificate_hash(&tls);
        Stream::Tls(Box::new(tls))
    };
    let opening = match account {
        None => Opening::Plain { greeting },
        Some(account) => login::sign_in(account, &mut stream, greeting, server_hash)
            .await
            .map_err(|error| login_error(grant, account, &error))?,
    };
    Ok(Connection {
        stream,
        writer,
        opening,
    })
}

async fn begin_tls(
    opener: &Opener,
    host: &str,
    socket: crate::dial::Counted,
) -> io::Result<tokio_rustls::client::TlsStream<crate::dial::Counted>> {
    let literal = host.trim_start_matches('[').trim_end_matches(']');
    let name = ServerName::try_from(literal.to_owned()).map_err(io::Error::other)?;
    TlsConnector::from(Arc::clone(&opener.tls))
        .connect(name, socket)
        .await
}

/// Returns the hash of a certificate that binds a login to it, if the certificate is signed with SHA-256.
fn certificate_hash(
    tls: &tokio_rustls::client::TlsStream<crate::dial::Counted>,
) -> Option<Vec<u8>> {
    /// RSA and ECDSA with SHA-256, as a certificate names them.
    const SHA256: [&[u8]; 2] = [
        &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b],
        &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02],
    ];
    let (_, session) = tls.get_ref();
    let certificate = session.peer_certificates()?.first()?;
    let is_sha256 = SHA256
        .iter()
        .any(|name| memchr::memmem::find(certificate, name).is_some());
    is_sha256.then(|| Sha256::digest(certificate).to_vec())
}

fn dial_error(grant: &TcpGrant, error: &DialError) -> HttpError {
    let kind = match error {
        DialError::Unresolved(_) => HttpErrorKind::NameNotFound,
        DialError::Refused { .. } => HttpErrorKind::AddressNotAllowed,
        DialError::Connect(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            HttpErrorKind::ConnectionRefused
        }
        DialError::Connect(_) => HttpErrorKind::Unreachable,
    };
    HttpError::new(kind, format!("no connection to {}: {error}", grant.to))
}

/// Says why there is no login. What servers write may repeat a password, so it is hidden.
fn login_error(grant: &TcpGrant, account: &Account, error: &io::Error) -> HttpError {
    let kind = match error.kind() {
        io::ErrorKind::PermissionDenied => HttpErrorKind::LoginRefused,
        _ => HttpErrorKind::Unreachable,
    };
    let mut text = error.to_string();
    if let Some(password) = account.password.as_deref().filter(|it| !it.is_empty()) {
        text = text.replace(password, "***");
    }
    let to = &grant.to;
    HttpError::new(kind, format!("cannot sign in to {to}: {text}"))
}

/// A connection while a guest has it. When this is dropped, the connection is kept or closed.
pub(crate) struct Session {
    used: Option<Loan>,
    /// What it takes of the connections of its component.
    share: Option<OwnedSemaphorePermit>,
    to: mpsc::Sender<Loan>,
}

impl Session {
    /// Returns the connection, if it is one of PostgreSQL, and what is known of its traffic.
    pub(crate) fn postgres(&mut self) -> Option<(&mut Stream, &mut Traffic)> {
        let used = self.used.as_mut()?;
        match used.watch.get_mut() {
            Watch::Postgres(traffic) => Some((&mut used.connection.stream, traffic)),
            Watch::Redis(_) | Watch::Nothing => None,
        }
    }

    /// Gives the share of its component back when it ends.
    pub(crate) fn with_share(mut self, share: Option<OwnedSemaphorePermit>) -> Self {
        self.share = share;
        self
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(used) = self.used.take() {
            // Without room, the connection is closed.
            let _ = self.to.try_send(used);
        }
    }
}

/// A connection that a guest had.
struct Loan {
    connection: Connection,
    watch: RefCell<Watch>,
    /// Whether a part of what the guest sent is on its way.
    is_sending: Cell<bool>,
    account: Option<Account>,
    grant: TcpGrant,
    opener: Opener,
    pool: Rc<Pool>,
    _place: Option<OwnedSemaphorePermit>,
}

impl Loan {
    /// Returns the connection to its first state and keeps it, if it can be; else ends what it does.
    async fn recycle(mut self) {
        // The attempt may be over. What is sent now is this process's own.
        self.connection.writer.set(None);
        let is_kept = match timeout(RESET_TIMEOUT, self.reset()).await {
            Ok(Ok(is_reset)) => is_reset,
            Ok(Err(_)) | Err(_) => false,
        };
        if is_kept && let Some(account) = self.account.take() {
            let mut kept = self.pool.kept.borrow_mut();
            if kept.len() < self.pool.kept_max {
                kept.push(IdleConnection {
                    connection: self.connection,
                    account,
                    since: Instant::now(),
                });
                let pool = Rc::downgrade(&self.pool);
                spawn_local(async move {
                    sleep(KEPT_FOR).await;
                    if let Some(pool) = pool.upgrade() {
                        pool.expire();
                    }
                });
            }
            return;
        }
        let busy = match &*self.watch.borrow() {
            Watch::Postgres(traffic) if traffic.is_busy() => match &self.connection.opening {
                Opening::Postgres(welcome) => welcome.key,
                Opening::Plain { .. } | Opening::Redis => None,
            },
            Watch::Postgres(_) | Watch::Redis(_) | Watch::Nothing => None,
        };
        if let Some(key) = busy {
            // The server ends the query by itself otherwise, when it sends the next row.
            let _ = timeout(RESET_TIMEOUT, self.cancel(key)).await;
        }
    }

    /// Returns whether the connection is in its first state.
    async fn reset(&mut self) -> io::Result<bool> {
        let stream = &mut self.connection.stream;
        if self.pool.kept_max == 0 || self.is_sending.get() {
            return Ok(false);
        }
        match (self.watch.get_mut(), &self.account) {
            (Watch::Postgres(traffic), _) if traffic.is_idle() => {
                postgres::reset(stream).await.map(|()| true)
            }
            (Watch::Redis(commands), Some(account)) if commands.is_between() => {
                let mut mark = [0; 16];
                let random = rustls::crypto::ring::default_provider().secure_random;
                random
                    .fill(&mut mark)
                    .map_err(|_| io::Error::other("no random bytes"))?;
                redis::reset(stream, account, mark).await.map(|()| true)
            }
            _ => Ok(false),
        }
    }

    async fn cancel(&self, key: BackendKey) -> io::Result<()> {
        let to = &self.grant.to;
        let dialled = self.opener.dial.open(to.host(), to.port()).await;
        let mut socket = dialled.map_err(io::Error::other)?;
        if self.grant.tls == TlsStart::None {
            return postgres::cancel(&mut socket, key).await;
        }
        starttls::ask(&mut socket, self.grant.tls).await?;
        let mut tls = begin_tls(&self.opener, to.host(), socket).await?;
        postgres::cancel(&mut tls, key).await
    }
}
