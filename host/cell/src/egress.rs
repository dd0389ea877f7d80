//! The conversation of one run with the broker, which sends its requests to HTTP servers. One task has the
//! socket: requests may be made at the same time, and their answers come in any order.

use std::collections::HashMap;
use std::os::unix::net::UnixStream as StdStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use host_core::egress::{
    BODY_BYTES_MAX, EGRESS_FRAME_BYTES_MAX, HEADERS_BYTES_MAX, HttpAnswer, HttpError,
    HttpErrorKind, HttpRequest, HttpResponse, URL_BYTES_MAX,
};
use parking_lot::Mutex;
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use tokio_util::codec::{FramedRead, FramedWrite, LengthDelimitedCodec};
use wasmtime_wasi::runtime::{AbortOnDropJoinHandle, spawn};

use crate::limits::{GuestMemory, MemoryCharge};
use crate::run_output::RunOutput;

/// The message to a guest without a grant.
const NO_GRANT: &str = "the manifest grants this handler no HTTP requests; add [[handlers.NAME.http]] with \
                        to = \"https://…\" to it, and the server to grants.http of the host";

/// How many requests wait for the socket. The broker says how many it works on.
const WAITING_MAX: usize = 16;

/// How many failed requests of one run are in the log of its job.
const WARNINGS_MAX: u32 = 20;

/// A run's way to HTTP servers. Its requests are cut when it is dropped.
pub(crate) struct Egress {
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
        let next = |left: u32| left.checked_sub(1);
        let taken = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        if taken.is_ok() {
            self.output.warn(error.message.clone());
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

/// A request, and where its answer goes.
struct Call {
    request: HttpRequest,
    answer: oneshot::Sender<Result<BufferedResponse, HttpError>>,
}

/// A response, and the memory that it takes until the guest has it.
pub(crate) struct BufferedResponse {
    pub(crate) response: HttpResponse,
    pub(crate) kept: MemoryCharge,
}

impl Egress {
    pub(crate) fn new(
        socket: Option<Result<StdStream, String>>,
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
            state,
            memory,
            warnings: Warnings { output, left },
        }
    }

    /// Returns the size of the largest request that the guest may pass, in bytes.
    pub(crate) fn request_bytes_max(&self) -> u64 {
        match self.state {
            State::NotGranted => 0,
            _ => (BODY_BYTES_MAX + HEADERS_BYTES_MAX + URL_BYTES_MAX) as u64,
        }
    }

    /// Returns what the guest uses, to add to.
    pub(crate) fn memory(&self) -> Arc<GuestMemory> {
        Arc::clone(&self.memory)
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
                    State::Open(sender, spawn(talk(stream, calls, self.memory())))
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
        let sent = self.0.send(Call { request, answer }).await;
        sent.map_err(|_| ended())?;
        answered.await.map_err(|_| ended())?
    }
}

/// Carries requests to the broker and its answers back. Ends with the socket.
async fn talk(stream: UnixStream, mut calls: mpsc::Receiver<Call>, memory: Arc<GuestMemory>) {
    let mut codec = LengthDelimitedCodec::new();
    codec.set_max_frame_length(EGRESS_FRAME_BYTES_MAX);
    let (read, write) = stream.into_split();
    let mut frames = FramedRead::new(read, codec.clone());
    let mut sink = FramedWrite::new(write, codec);
    let open = Mutex::new(HashMap::new());
    let writing = async {
        let mut last = 0;
        while let Some(Call {
            mut request,
            answer,
        }) = calls.recv().await
        {
            // The guest may have given it up.
            if answer.is_closed() {
                continue;
            }
            last += 1;
            request.call = last;
            let frame = match frame(&request) {
                Ok(frame) => frame,
                Err(error) => {
                    // The guest may have given up.
                    let _ = answer.send(Err(error));
                    continue;
                }
            };
            drop(request);
            open.lock().insert(last, answer);
            if sink.send(frame).await.is_err() {
                return;
            }
        }
    };
    let reading = async {
        while let Some(Ok(frame)) = frames.next().await {
            let Ok(HttpAnswer { call, result }) = postcard::from_bytes(&frame) else {
                return;
            };
            let Some(answer) = open.lock().remove(&call) else {
                return;
            };
            let result = result.and_then(|response| keep(response, frame.len(), &memory));
            // The guest may have given up.
            let _ = answer.send(result);
        }
    };
    tokio::select! {
        () = writing => {}
        () = reading => {}
    }
}

fn frame(request: &HttpRequest) -> Result<Bytes, HttpError> {
    let frame = postcard::to_stdvec(request).map_err(|error| unavailable(&error))?;
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
    let mut kept = MemoryCharge::nothing(Arc::clone(memory));
    match kept.add(bytes) {
        Ok(()) => Ok(BufferedResponse { response, kept }),
        Err(error) => Err(HttpError::new(HttpErrorKind::TooLarge, error.to_string())),
    }
}

fn unavailable(cause: &dyn std::fmt::Display) -> HttpError {
    let message = format!("the host cannot send requests now: {cause}");
    HttpError::new(HttpErrorKind::Unavailable, message)
}
