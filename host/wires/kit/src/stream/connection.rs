//! Serves one connection: turns bytes into frames and messages, and messages into bytes, and limits
//! how long either may take. Decides nothing.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::time::{Instant, sleep_until, timeout};

use super::framing::{Cut, Framing, Next, Pending};
use super::memory::Memory;
use super::outbox::Outbox;
use super::session::StreamSession;
use crate::driver::{EffectHandler, Hub, Input, Outlet};
use crate::session::{Link, Session};

/// How long a peer may accept none of the bytes written to it.
const STALL_TIME: Duration = Duration::from_secs(30);

/// How long, and how many bytes, a connection is still read after the last byte was written.
/// Closing with unread bytes would reset the connection and lose what the peer has not read yet.
const LINGER_TIME: Duration = Duration::from_millis(250);
const LINGER_BYTES: usize = 64 << 10;

/// Frames of at least this size are parsed on another thread, in bytes.
const LARGE_BYTES: usize = 256 << 10;

/// Serves one connection from start to end. The session gets exactly one `on_open` and one `on_closed`, even
/// if this future is dropped.
pub async fn serve_connection<S, H, T>(hub: Arc<Hub<S, H>>, link: Link, stream: T)
where
    S: StreamSession,
    H: EffectHandler<S>,
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let outbox = Arc::new(Outbox::default());
    let messages = Messages::<S>::to(&outbox);
    hub.submit(Input::Opened(link, Box::new(messages)));
    let closed = CloseGuard {
        hub: Arc::clone(&hub),
        link,
    };
    let (mut from, to) = split(stream);
    let mut writing = Box::pin(write_all(&outbox, to));
    tokio::select! {
        end = read_all(&hub, link, &outbox, &mut from) => {
            if end == ReadEnd::Closing && writing.await.is_ok() {
                linger(&mut from).await;
            }
        }
        written = &mut writing => {
            if written.is_ok() {
                linger(&mut from).await;
            }
        }
    }
    drop(closed);
}

/// Writes the messages to a connection into its outbox.
pub(super) struct Messages<S>(Arc<Outbox>, PhantomData<fn(S)>);

impl<S> Messages<S> {
    pub(super) fn to(outbox: &Arc<Outbox>) -> Self {
        Self(Arc::clone(outbox), PhantomData)
    }
}

impl<S: StreamSession> Outlet<S::Out> for Messages<S> {
    fn put(&mut self, message: S::Out) -> bool {
        self.0.put(|out| S::write(&message, out));
        true
    }

    fn close(&mut self) {
        self.0.close();
    }
}

/// Reports the end of the connection to the session, even if the task is dropped.
struct CloseGuard<S: Session, H: EffectHandler<S>> {
    hub: Arc<Hub<S, H>>,
    link: Link,
}

impl<S: Session, H: EffectHandler<S>> Drop for CloseGuard<S, H> {
    fn drop(&mut self) {
        self.hub.submit(Input::Closed(self.link));
    }
}

/// Why a connection is no longer read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadEnd {
    /// The peer is gone. Nothing more is written.
    Gone,
    /// The session closes the connection, or the stream is broken. The outbox is still written.
    Closing,
}

async fn read_all<S: StreamSession, H: EffectHandler<S>, T: AsyncRead + AsyncWrite>(
    hub: &Arc<Hub<S, H>>,
    link: Link,
    outbox: &Outbox,
    from: &mut ReadHalf<T>,
) -> ReadEnd {
    tokio::select! {
        biased;
        () = outbox.closing().cancelled() => ReadEnd::Closing,
        end = read_frames(hub, link, outbox, from) => end,
    }
}

async fn read_frames<S: StreamSession, H: EffectHandler<S>, T: AsyncRead + AsyncWrite>(
    hub: &Arc<Hub<S, H>>,
    link: Link,
    outbox: &Outbox,
    from: &mut ReadHalf<T>,
) -> ReadEnd {
    let mut framing = S::Framing::default();
    let mut pending = Pending::Nothing;
    let mut due = Instant::now();
    let mut memory = Memory::of(hub.large());
    loop {
        let mut fresh = false;
        loop {
            let message = match framing.next() {
                Next::Frame(frame) => read_frame::<S>(frame).await,
                Next::Skipped(defect) => S::read(Err(defect)),
                Next::Incomplete => break,
                Next::Broken(defect) => return end_with(hub, link, outbox, defect).await,
            };
            fresh = true;
            hub.submit_message(link, message).await;
        }
        outbox.has_room().await;
        if fresh || framing.pending() != pending {
            pending = framing.pending();
            due = Instant::now() + S::Framing::time_limit(pending);
        }
        let cut = tokio::select! {
            read = async {
                memory.cover(framing.expected_bytes()).await;
                from.read_buf(framing.room()).await
            } => match read {
                Ok(bytes) if bytes > 0 => None,
                _ if framing.pending() == Pending::Nothing => return ReadEnd::Gone,
                _ => Some(Cut::Short { bytes: framing.pending_bytes() }),
            },
            () = sleep_until(due), if pending != Pending::Nothing => Some(Cut::Late(pending)),
        };
        match cut {
            None => {}
            Some(cut @ Cut::Short { .. }) => {
                hub.submit_message(link, S::read(Err(cut.into()))).await;
                return ReadEnd::Gone;
            }
            Some(Cut::Late(stage)) => match framing.late(stage) {
                Next::Skipped(defect) => hub.submit_message(link, S::read(Err(defect))).await,
                Next::Broken(defect) => return end_with(hub, link, outbox, defect).await,
                Next::Frame(_) | Next::Incomplete => {
                    return end_with(hub, link, outbox, Cut::Late(stage).into()).await;
                }
            },
        }
    }
}

/// Reads a message. A large one is read on another thread, so that it delays no other connection.
async fn read_frame<S: StreamSession>(frame: Bytes) -> S::In {
    if frame.len() < LARGE_BYTES {
        return S::read(Ok(frame));
    }
    let copy = frame.clone();
    let reading = tokio::task::spawn_blocking(move || S::read(Ok(frame)));
    // The result is missing only if reading panics. Then reading here panics too.
    reading.await.unwrap_or_else(|_| S::read(Ok(copy)))
}

async fn end_with<S: StreamSession, H: EffectHandler<S>>(
    hub: &Arc<Hub<S, H>>,
    link: Link,
    outbox: &Outbox,
    defect: <S::Framing as Framing>::Defect,
) -> ReadEnd {
    hub.submit_message(link, S::read(Err(defect))).await;
    hub.submit(Input::Broken(link));
    // Another thread may still have to process the frame and the end of the connection.
    outbox.closing().cancelled().await;
    ReadEnd::Closing
}

/// The peer is gone or accepts no bytes.
struct Unwritable;

/// Writes until the outbox is closed and empty.
async fn write_all<T: AsyncRead + AsyncWrite>(
    outbox: &Outbox,
    mut to: WriteHalf<T>,
) -> Result<(), Unwritable> {
    let mut out = BytesMut::new();
    loop {
        outbox.take(&mut out).await;
        if out.is_empty() {
            let shut = timeout(LINGER_TIME, to.shutdown()).await;
            return shut.map_or(Err(Unwritable), |shut| shut.map_err(|_| Unwritable));
        }
        while !out.is_empty() {
            match timeout(STALL_TIME, to.write_buf(&mut out)).await {
                Ok(Ok(bytes)) if bytes > 0 => {}
                _ => return Err(Unwritable),
            }
        }
        outbox.written();
    }
}

async fn linger<T: AsyncRead + AsyncWrite>(from: &mut ReadHalf<T>) {
    let mut unread = LINGER_BYTES;
    let mut buffer = BytesMut::new();
    let reading = async {
        while unread > 0 {
            buffer.clear();
            buffer.reserve(4 << 10);
            match from.read_buf(&mut buffer).await {
                Ok(bytes) if bytes > 0 => unread = unread.saturating_sub(bytes),
                _ => return,
            }
        }
    };
    // Anything the peer sends after that is discarded.
    let _ = timeout(LINGER_TIME, reading).await;
}
