//! The conversation of one run with the broker, which sends its requests to HTTP servers and opens its connections. One task
//! has the socket: requests may be made at the same time, and their answers come in any order.

use std::collections::HashMap;
use std::os::unix::net::UnixStream as StdStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use host_core::egress::{
    EGRESS_FRAME_BYTES_MAX, FromCell, HttpAnswer, HttpError, HttpErrorKind, HttpRequest,
    HttpResponse, SqlError, SqlRequest, SqlRows, ToCell,
};
use host_core::tcp_grant::Endpoint;
use parking_lot::Mutex;
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use tokio_util::codec::{FramedRead, FramedWrite, LengthDelimitedCodec};
use wasmtime_wasi::runtime::{AbortOnDropJoinHandle, spawn};

use crate::fd_stream::FdStream;
use crate::limits::{GuestMemory, MemoryCharge};
use crate::run_output::RunOutput;

/// The message to a guest without a grant.
const NO_GRANT: &str = "the manifest grants this handler no servers; add [[handlers.NAME.http]] with \
                        to = \"https://…\" to it, and the server to grants.http of the host; or [[handlers.NAME.tcp]] or \
                        [[handlers.NAME.sql]] with to = \"NAME:PORT\", and the server to grants.tcp";

/// How many requests wait for the socket. The broker says how many it works on.
const WAITING_MAX: usize = 16;

/// How many failed requests of one run are in the log of its job.
const WARNINGS_MAX: u32 = 20;

/// A run's way to servers. Its requests and connections are cut when it is dropped.
pub(crate) struct Egress {
    /// Those that the guest may connect to, by the place of their grant.
    servers: Vec<Endpoint>,
    may_request: bool,
    /// How many transactions the guest has begun.
    transactions: u32,
    state: State,
    memory: Arc<GuestMemory>,
    warnings: Warnings,
}

/// Writes why requests failed to the log of the job, for guests that get only a code. Clones count together.
#[derive(Clone)]
pub(crate) struct Warnings {
    output: Arc<RunOutput>,
    left: Arc<AtomicU32>,
}

impl Warnings {
    pub(crate) fn add(&self, error: &HttpError) {
        self.add_text(error.message.clone());
    }

    fn add_text(&self, message: String) {
        let next = |left: u32| left.checked_sub(1);
        let taken = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        if taken.is_ok() {
            self.output.warn(message);
        }
    }
}

enum State {
    NotGranted,
    /// The host could not connect it.
    Failed(String),
    /// No request has been made yet.
    Idle(StdStream),
    Open(
        mpsc::Sender<Call>,
        #[expect(dead_code, reason = "it ends the task")] AbortOnDropJoinHandle<()>,
    ),
}

/// What the guest wants, and where the answer goes.
enum Call {
    Request(HttpRequest, Waiter<BufferedResponse>),
    Connection {
        grant: u32,
        waiter: Waiter<UnixStream>,
    },
    Sql(SqlRequest, Waiter<BufferedRows>),
}

type Waiter<T> = oneshot::Sender<Result<T, <T as Answer>::Error>>;

/// What the broker answers to a call.
trait Answer {
    type Error;
}

impl Answer for BufferedResponse {
    type Error = HttpError;
}

impl Answer for UnixStream {
    type Error = HttpError;
}

impl Answer for BufferedRows {
    type Error = SqlError;
}

/// Who waits for the answer to a call.
enum ReplyTo {
    Response(Waiter<BufferedResponse>),
    Connection(Waiter<UnixStream>),
    Rows(Waiter<BufferedRows>),
}

impl Call {
    /// Returns what to send, and who waits for the answer; nothing if the guest has given it up.
    fn open(self, call: u32) -> Option<(FromCell, ReplyTo)> {
        match self {
            Self::Request(request, waiter) if !waiter.is_closed() => {
                let request = HttpRequest { call, ..request };
                Some((FromCell::Http(request), ReplyTo::Response(waiter)))
            }
            Self::Connection { grant, waiter } if !waiter.is_closed() => {
                let asked = FromCell::Connect { call, grant };
                Some((asked, ReplyTo::Connection(waiter)))
            }
            Self::Sql(asked, waiter) if !waiter.is_closed() => {
                Some((FromCell::Sql { call, asked }, ReplyTo::Rows(waiter)))
            }
            Self::Request(..) | Self::Connection { .. } | Self::Sql(..) => None,
        }
    }
}

impl ReplyTo {
    fn refuse(self, error: HttpError) {
        // The guest may have given up.
        match self {
            Self::Response(waiter) => drop(waiter.send(Err(error))),
            Self::Connection(waiter) => drop(waiter.send(Err(error))),
            Self::Rows(waiter) => drop(waiter.send(Err(error.into()))),
        }
    }
}

/// Rows of a database, and the memory that they take until the guest has them.
pub(crate) struct BufferedRows {
    pub(crate) rows: SqlRows,
    pub(crate) _kept: MemoryCharge,
}

/// A response, and the memory that it takes until the guest has it.
pub(crate) struct BufferedResponse {
    pub(crate) response: HttpResponse,
    pub(crate) kept: MemoryCharge,
}

impl Egress {
    pub(crate) fn new(
        socket: Option<Result<StdStream, String>>,
        servers: Vec<Endpoint>,
        may_request: bool,
        memory: Arc<GuestMemory>,
        output: Arc<RunOutput>,
    ) -> Self {
        let left = Arc::new(AtomicU32::new(WARNINGS_MAX));
        let state = match socket {
            None => State::NotGranted,
            Some(Err(cause)) => State::Failed(cause),
            Some(Ok(socket)) => State::Idle(socket),
        };
        Self {
            servers,
            may_request,
            transactions: 0,
            state,
            memory,
            warnings: Warnings { output, left },
        }
    }

    /// Returns what the guest uses, to add to.
    pub(crate) fn memory(&self) -> Arc<GuestMemory> {
        Arc::clone(&self.memory)
    }

    /// Returns a number for a new transaction.
    pub(crate) const fn next_transaction(&mut self) -> u32 {
        self.transactions = self.transactions.wrapping_add(1);
        self.transactions
    }

    /// Returns whether the guest may send HTTP requests.
    pub(crate) const fn may_request(&self) -> bool {
        self.may_request
    }

    /// Returns the servers that the guest may connect to.
    pub(crate) fn servers(&self) -> &[Endpoint] {
        &self.servers
    }

    pub(crate) fn warnings(&self) -> Warnings {
        self.warnings.clone()
    }

    /// Sends a request and waits for the response. If the future is dropped, the answer is thrown away.
    pub(crate) fn send(
        &mut self,
        request: HttpRequest,
    ) -> impl Future<Output = Result<BufferedResponse, HttpError>> + Send + use<> {
        let link = self.link();
        async move { link?.send(request).await }
    }

    /// Returns the way to the task that has the socket, which is started first. Must be called in a runtime.
    pub(crate) fn link(&mut self) -> Result<Link, HttpError> {
        if let State::Idle(_) = self.state
            && let State::Idle(socket) = std::mem::replace(&mut self.state, State::NotGranted)
        {
            let opened = socket
                .set_nonblocking(true)
                .and_then(|()| UnixStream::from_std(socket));
            self.state = match opened {
                Ok(stream) => {
                    let (sender, calls) = mpsc::channel(WAITING_MAX);
                    let talking = talk(stream, calls, self.memory(), self.warnings());
                    State::Open(sender, spawn(talking))
                }
                Err(error) => State::Failed(error.to_string()),
            };
        }
        match &self.state {
            State::Open(calls, _) => Ok(Link(calls.clone())),
            State::Failed(cause) => Err(unavailable(cause)),
            State::NotGranted | State::Idle(_) => {
                Err(HttpError::new(HttpErrorKind::NotGranted, NO_GRANT))
            }
        }
    }
}

/// The way to the task that has the socket.
pub(crate) struct Link(mpsc::Sender<Call>);

impl Link {
    /// See [`Egress::send`].
    pub(crate) async fn send(self, request: HttpRequest) -> Result<BufferedResponse, HttpError> {
        let (answer, answered) = oneshot::channel();
        let ended = || unavailable(&"it has ended");
        let sent = self.0.send(Call::Request(request, answer)).await;
        sent.map_err(|_| ended())?;
        answered.await.map_err(|_| ended())?
    }

    /// Asks a database, and waits for the answer. If the future is dropped, the answer is thrown away.
    pub(crate) async fn ask(self, asked: SqlRequest) -> Result<BufferedRows, SqlError> {
        let (waiter, answered) = oneshot::channel();
        let ended = || SqlError::from(unavailable(&"it has ended"));
        let sent = self.0.send(Call::Sql(asked, waiter)).await;
        sent.map_err(|_| ended())?;
        answered.await.map_err(|_| ended())?
    }

    /// Opens a connection by the grant at this place, and waits for it. If the future is dropped, it is closed.
    pub(crate) async fn connect(self, grant: u32) -> Result<UnixStream, HttpError> {
        let (waiter, answered) = oneshot::channel();
        let ended = || unavailable(&"it has ended");
        let sent = self.0.send(Call::Connection { grant, waiter }).await;
        sent.map_err(|_| ended())?;
        answered.await.map_err(|_| ended())?
    }
}

/// Carries calls to the broker and its answers back. Ends with the socket.
async fn talk(
    stream: UnixStream,
    mut calls: mpsc::Receiver<Call>,
    memory: Arc<GuestMemory>,
    warnings: Warnings,
) {
    let mut codec = LengthDelimitedCodec::new();
    codec.set_max_frame_length(EGRESS_FRAME_BYTES_MAX);
    let (read, write) = stream.into_split();
    let mut frames = FramedRead::new(FdStream::new(read), codec.clone());
    let mut sink = FramedWrite::new(write, codec);
    let open = Mutex::new(HashMap::new());
    let writing = async {
        let mut last = 0;
        while let Some(call) = calls.recv().await {
            let Some((asked, waiting)) = call.open(last + 1) else {
                continue;
            };
            last += 1;
            let frame = match frame(&asked) {
                Ok(frame) => frame,
                Err(error) => {
                    waiting.refuse(error);
                    continue;
                }
            };
            drop(asked);
            open.lock().insert(last, waiting);
            if sink.send(frame).await.is_err() {
                return;
            }
        }
    };
    let reading = async {
        while let Some(Ok(frame)) = frames.next().await {
            let Ok(message) = postcard::from_bytes(&frame) else {
                return;
            };
            match message {
                ToCell::Http(HttpAnswer { call, result }) => {
                    let Some(ReplyTo::Response(waiter)) = open.lock().remove(&call) else {
                        return;
                    };
                    let result = result.and_then(|response| keep(response, frame.len(), &memory));
                    // The guest may have given up.
                    let _ = waiter.send(result);
                }
                ToCell::Connected { call, result } => {
                    let Some(ReplyTo::Connection(waiter)) = open.lock().remove(&call) else {
                        return;
                    };
                    let socket = result.and_then(|()| {
                        let taken = frames.get_mut().take();
                        let fd = taken
                            .ok_or_else(|| unavailable(&"the cell has too many open files"))?;
                        let stream = StdStream::from(fd);
                        let ready = stream.set_nonblocking(true);
                        ready
                            .and_then(|()| UnixStream::from_std(stream))
                            .map_err(|error| unavailable(&error))
                    });
                    // The guest may have given up.
                    let _ = waiter.send(socket);
                }
                ToCell::Sql { call, result } => {
                    let Some(ReplyTo::Rows(waiter)) = open.lock().remove(&call) else {
                        return;
                    };
                    let result = result.and_then(|rows| {
                        let kept = charge(frame.len(), &memory)?;
                        Ok(BufferedRows { rows, _kept: kept })
                    });
                    // The guest may have given up.
                    let _ = waiter.send(result);
                }
                ToCell::Broken(message) => warnings.add_text(message),
            }
        }
    };
    tokio::select! {
        () = writing => {}
        () = reading => {}
    }
}

fn frame(asked: &FromCell) -> Result<Bytes, HttpError> {
    let frame = postcard::to_stdvec(asked).map_err(|error| unavailable(&error))?;
    if frame.len() > EGRESS_FRAME_BYTES_MAX {
        let message = "the request is too large";
        return Err(HttpError::new(HttpErrorKind::RequestTooLarge, message));
    }
    Ok(frame.into())
}

/// Charges a response to the guest.
fn keep(
    response: HttpResponse,
    bytes: usize,
    memory: &Arc<GuestMemory>,
) -> Result<BufferedResponse, HttpError> {
    let kept = charge(bytes, memory)?;
    Ok(BufferedResponse { response, kept })
}

fn charge(bytes: usize, memory: &Arc<GuestMemory>) -> Result<MemoryCharge, HttpError> {
    let mut kept = MemoryCharge::nothing(Arc::clone(memory));
    let taken = kept.add(bytes);
    taken.map_err(|error| HttpError::new(HttpErrorKind::TooLarge, error.to_string()))?;
    Ok(kept)
}

fn unavailable(cause: &dyn std::fmt::Display) -> HttpError {
    let message = format!("the host cannot send requests now: {cause}");
    HttpError::new(HttpErrorKind::Unavailable, message)
}
