//! Passes bytes on between a guest and a server, and follows them as far as keeping the connection needs.

use std::cell::Cell;
use std::io;
use std::time::Duration;

use host_core::egress::{HttpError, HttpErrorKind};
use host_core::tcp_grant::{IDLE_MS_DEFAULT, TcpGrant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, split};
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
pub(crate) struct Carried {
    pub(crate) sent: Cell<u64>,
    pub(crate) received: Cell<u64>,
}

/// Passes bytes on until one side ends, or a limit is reached. `take` takes from the bytes that the attempt may still carry.
/// Cancel safe: the session decides what becomes of the connection.
pub(crate) async fn relay(
    session: &mut Session,
    grant: &TcpGrant,
    mut guest: UnixStream,
    take: &impl Fn(usize) -> bool,
    carried: &Carried,
) -> Result<(), HttpError> {
    let Some(used) = &mut session.used else {
        return Ok(());
    };
    let (watch, is_sending) = (&used.watch, &used.is_sending);
    let is_opaque = matches!(&*watch.borrow(), Watch::Nothing);
    match &used.connection.opening {
        Opening::Plain {
            greeting: Some(greeting),
        } => {
            // The guest sees itself that it is gone.
            let _ = guest.write_all(greeting.as_bytes()).await;
        }
        Opening::Postgres(welcome) => match postgres::greet_guest(&mut guest, welcome).await {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Other => {
                return Err(HttpError::new(
                    HttpErrorKind::InvalidRequest,
                    error.to_string(),
                ));
            }
            Err(_) => return Ok(()),
        },
        Opening::Plain { greeting: None } | Opening::Redis => {}
    }
    let last = Cell::new(Instant::now());
    let count = |cell: &Cell<u64>, bytes: usize| {
        last.set(Instant::now());
        cell.set(cell.get() + bytes as u64);
        if take(bytes) {
            return Ok(());
        }
        let message = format!(
            "the attempt has used up the bytes that its manifest grants for {} (max_total_mib)",
            grant.to
        );
        Err(HttpError::new(HttpErrorKind::LimitReached, message))
    };
    let broken = |error: io::Error| {
        let message = format!("the connection to {} broke: {error}", grant.to);
        HttpError::new(HttpErrorKind::ResponseIncomplete, message)
    };
    let (mut from_guest, mut to_guest) = guest.split();
    let (mut from_server, mut to_server) = split(&mut used.connection.stream);
    let sending = async {
        let (mut room, mut allowed) = (vec![0; CHUNK], Vec::new());
        loop {
            let size = from_guest.read(&mut room).await.unwrap_or_default();
            if size == 0 {
                if is_opaque {
                    to_server.shutdown().await.map_err(broken)?;
                }
                return Ok(GuestEnd::Silent);
            }
            count(&carried.sent, size)?;
            allowed.clear();
            let (mut refused, mut is_over) = (None, false);
            match &mut *watch.borrow_mut() {
                Watch::Nothing => allowed.extend_from_slice(&room[..size]),
                Watch::Postgres(traffic) => {
                    let passed = traffic.guest(&room[..size]);
                    allowed.extend_from_slice(&room[..passed]);
                    is_over = passed < size;
                }
                Watch::Redis(commands) => {
                    refused = commands.pass(&room[..size], &mut allowed).err()
                }
            }
            if !allowed.is_empty() {
                is_sending.set(true);
                to_server.write_all(&allowed).await.map_err(broken)?;
                to_server.flush().await.map_err(broken)?;
                is_sending.set(false);
            }
            if let Some(refused) = refused {
                return Err(HttpError::new(
                    HttpErrorKind::InvalidRequest,
                    refused.reason(),
                ));
            }
            if is_over {
                return Ok(GuestEnd::Farewell);
            }
        }
    };
    let receiving = async {
        let mut room = vec![0; CHUNK];
        loop {
            let size = from_server.read(&mut room).await.map_err(broken)?;
            if size == 0 {
                return Ok(());
            }
            count(&carried.received, size)?;
            if let Watch::Postgres(traffic) = &mut *watch.borrow_mut() {
                traffic.server(&room[..size]);
            }
            if to_guest.write_all(&room[..size]).await.is_err() {
                // It does not want the rest.
                return Ok(());
            }
        }
    };
    let idle = async {
        let limit = grant.idle_seconds.map_or(IDLE_MS_DEFAULT, |it| it.ms);
        loop {
            let until = last.get() + Duration::from_millis(limit);
            if until <= Instant::now() {
                let message = format!(
                    "the connection to {} carried nothing for {limit} ms (idle_seconds)",
                    grant.to
                );
                return HttpError::new(HttpErrorKind::TimedOut, message);
            }
            sleep_until(until).await;
        }
    };
    let both = async {
        tokio::pin!(receiving);
        tokio::select! {
            ended = &mut receiving => ended,
            ended = sending => match ended? {
                GuestEnd::Silent if is_opaque => receiving.await,
                GuestEnd::Silent | GuestEnd::Farewell => Ok(()),
            },
        }
    };
    tokio::select! {
        ended = both => ended,
        error = idle => Err(error),
    }
}
