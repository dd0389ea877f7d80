//! Passes bytes on between a guest and a server, and follows them as far as keeping the connection needs.

use std::cell::{Cell, RefCell};
use std::io;
use std::time::Duration;

use host_core::egress::{HttpError, HttpErrorKind};
use host_core::tcp_grant::{IDLE_MS_DEFAULT, TcpGrant};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, split};
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep_until};

use super::postgres::{self, Traffic};
use super::redis::Commands;
use super::{Opening, Session};

/// How much is read at a time, in bytes.
const CHUNK: usize = 32 << 10;

/// What is followed of a connection.
pub(super) enum Watch {
    Nothing,
    Postgres(Traffic),
    Redis(Commands),
}

/// How the side of the guest ended.
enum GuestEnd {
    /// It will send nothing more, but may wait for the rest.
    Silent,
    /// It is done.
    Farewell,
}

/// The bytes that a connection has carried.
#[derive(Default)]
pub(crate) struct ByteCounts {
    pub(crate) sent: Cell<u64>,
    pub(crate) received: Cell<u64>,
}

/// Passes bytes on until one side ends, or a limit is reached. `take` takes from the bytes that the attempt may still carry.
/// Cancel safe: the session decides what becomes of the connection.
pub(crate) async fn relay(
    session: &mut Session,
    mut guest: UnixStream,
    take: &impl Fn(usize) -> bool,
    carried: &ByteCounts,
) -> Result<(), HttpError> {
    let Some(used) = &mut session.used else {
        return Ok(());
    };
    if !greet(&used.connection.opening, &mut guest).await? {
        return Ok(());
    }
    let relay = Relay {
        grant: &used.grant,
        take,
        carried,
        watch: &used.watch,
        is_sending: &used.is_sending,
        last: Cell::new(Instant::now()),
    };
    let (mut from_guest, mut to_guest) = guest.split();
    let (mut from_server, mut to_server) = split(&mut used.connection.stream);
    let receiving = relay.receive(&mut from_server, &mut to_guest);
    let both = async {
        tokio::pin!(receiving);
        tokio::select! {
            ended = &mut receiving => ended,
            ended = relay.send(&mut from_guest, &mut to_server) => match ended? {
                GuestEnd::Silent if relay.is_opaque() => receiving.await,
                GuestEnd::Silent | GuestEnd::Farewell => Ok(()),
            },
        }
    };
    tokio::select! {
        ended = both => ended,
        error = relay.idle() => Err(error),
    }
}

/// Gives the guest the start of the connection. Returns false if it does not want the connection.
async fn greet(opening: &Opening, guest: &mut UnixStream) -> Result<bool, HttpError> {
    match opening {
        Opening::Plain {
            greeting: Some(greeting),
        } => Ok(guest.write_all(greeting.as_bytes()).await.is_ok()),
        Opening::Postgres(welcome) => match postgres::greet_guest(guest, welcome).await {
            Ok(is_wanted) => Ok(is_wanted),
            Err(error) if error.kind() == io::ErrorKind::Other => {
                let message = error.to_string();
                Err(HttpError::new(HttpErrorKind::InvalidRequest, message))
            }
            // The guest has gone.
            Err(_) => Ok(false),
        },
        Opening::Plain { greeting: None } | Opening::Redis => Ok(true),
    }
}

/// What both directions of a connection share.
struct Relay<'a, T> {
    grant: &'a TcpGrant,
    take: &'a T,
    carried: &'a ByteCounts,
    watch: &'a RefCell<Watch>,
    is_sending: &'a Cell<bool>,
    /// When a byte was last carried.
    last: Cell<Instant>,
}

impl<T: Fn(usize) -> bool> Relay<'_, T> {
    /// Returns whether nothing is known of the protocol.
    fn is_opaque(&self) -> bool {
        matches!(&*self.watch.borrow(), Watch::Nothing)
    }

    fn count(&self, cell: &Cell<u64>, bytes: usize) -> Result<(), HttpError> {
        self.last.set(Instant::now());
        cell.set(cell.get() + bytes as u64);
        if (self.take)(bytes) {
            return Ok(());
        }
        let message = format!(
            "the attempt has used up the bytes that its manifest grants for {} (max_total_mib)",
            self.grant.to
        );
        Err(HttpError::new(HttpErrorKind::LimitReached, message))
    }

    fn broken(&self, error: &io::Error) -> HttpError {
        let message = format!("the connection to {} broke: {error}", self.grant.to);
        HttpError::new(HttpErrorKind::ResponseIncomplete, message)
    }

    /// Passes on what the guest sends, as far as it may.
    async fn send(
        &self,
        from_guest: &mut (impl AsyncRead + Unpin),
        to_server: &mut (impl AsyncWrite + Unpin),
    ) -> Result<GuestEnd, HttpError> {
        let (mut room, mut allowed) = (vec![0; CHUNK], Vec::new());
        loop {
            let size = from_guest.read(&mut room).await.unwrap_or_default();
            if size == 0 {
                if self.is_opaque() {
                    let ended = to_server.shutdown().await;
                    ended.map_err(|error| self.broken(&error))?;
                }
                return Ok(GuestEnd::Silent);
            }
            self.count(&self.carried.sent, size)?;
            allowed.clear();
            let (mut refused, mut is_over) = (None, false);
            match &mut *self.watch.borrow_mut() {
                Watch::Nothing => allowed.extend_from_slice(&room[..size]),
                Watch::Postgres(traffic) => {
                    let passed = traffic.guest(&room[..size]);
                    allowed.extend_from_slice(&room[..passed]);
                    is_over = passed < size;
                }
                Watch::Redis(commands) => {
                    refused = commands.pass(&room[..size], &mut allowed).err();
                }
            }
            if !allowed.is_empty() {
                self.is_sending.set(true);
                let written = async {
                    to_server.write_all(&allowed).await?;
                    to_server.flush().await
                };
                written.await.map_err(|error| self.broken(&error))?;
                self.is_sending.set(false);
            }
            if let Some(refused) = refused {
                let reason = refused.reason();
                return Err(HttpError::new(HttpErrorKind::InvalidRequest, reason));
            }
            if is_over {
                return Ok(GuestEnd::Farewell);
            }
        }
    }

    /// Passes on what the server sends, until it ends or the guest does not want the rest.
    async fn receive(
        &self,
        from_server: &mut (impl AsyncRead + Unpin),
        to_guest: &mut (impl AsyncWrite + Unpin),
    ) -> Result<(), HttpError> {
        let mut room = vec![0; CHUNK];
        loop {
            let read = from_server.read(&mut room).await;
            let size = read.map_err(|error| self.broken(&error))?;
            if size == 0 {
                return Ok(());
            }
            self.count(&self.carried.received, size)?;
            if let Watch::Postgres(traffic) = &mut *self.watch.borrow_mut() {
                traffic.server(&room[..size]);
            }
            if to_guest.write_all(&room[..size]).await.is_err() {
                return Ok(());
            }
        }
    }

    /// Waits until the connection has carried nothing for too long.
    async fn idle(&self) -> HttpError {
        let limit = self.grant.idle_seconds.map_or(IDLE_MS_DEFAULT, |it| it.ms);
        loop {
            let until = self.last.get() + Duration::from_millis(limit);
            if until <= Instant::now() {
                let message = format!(
                    "the connection to {} carried nothing for {limit} ms (idle_seconds)",
                    self.grant.to
                );
                return HttpError::new(HttpErrorKind::TimedOut, message);
            }
            sleep_until(until).await;
        }
    }
}
