//! Serves one run: reads its requests from its socket and sends back the answers. When the cell closes the
//! socket, all its requests are cut.

mod calls;
mod statements;
mod transactions;

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream as StdStream;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use host_core::egress::{EGRESS_FRAME_BYTES_MAX, FromCell, HttpError, HttpErrorKind, Pass, ToCell};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::io::{AsyncWriteExt as _, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::codec::{FramedRead, FramedWrite, LengthDelimitedCodec};

use self::calls::{Answer, Run};
use crate::broker::Broker;
use crate::permit::Permit;

/// The most open connections of one run.
const CONNECTIONS_MAX: usize = 64;

/// The most concurrent requests of one run.
const AT_ONCE_MAX: usize = 16;

/// Serves a run until its cell closes the socket, breaks the protocol, or the run's time is over.
pub(crate) async fn serve(broker: Rc<Broker>, pass: Pass, socket: StdStream) {
    let limit = Duration::from_millis(pass.time_left_ms);
    let opened = socket.try_clone().and_then(|watched| {
        socket.set_nonblocking(true)?;
        Ok((watched, UnixStream::from_std(socket)?))
    });
    let Ok((watched, stream)) = opened else {
        return;
    };
    let permit = match broker.permit(&pass, watched) {
        Ok(permit) => Arc::new(permit),
        Err(cause) => {
            return host_confine::report(format_args!(
                "cannot serve a run of {}: {cause}",
                pass.handler
            ));
        }
    };
    let mut codec = LengthDelimitedCodec::new();
    codec.set_max_frame_length(EGRESS_FRAME_BYTES_MAX);
    let (read, write) = stream.into_split();
    let requests = FramedRead::new(read, codec.clone());
    let answers = FramedWrite::new(write, codec);
    // At the limit, dropping the conversation cuts its requests.
    let conversation = converse(broker, pass, permit, requests, answers);
    let _ = timeout(limit, conversation).await;
}

async fn converse(
    broker: Rc<Broker>,
    pass: Pass,
    permit: Arc<Permit>,
    mut stream: FramedRead<OwnedReadHalf, LengthDelimitedCodec>,
    mut sink: FramedWrite<OwnedWriteHalf, LengthDelimitedCodec>,
) {
    let (answers, mut answered) = mpsc::channel::<Answer>(AT_ONCE_MAX);
    let at_once = Arc::new(Semaphore::new(AT_ONCE_MAX));
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let run = Rc::new(Run::new(broker, pass, permit, answers));
    let mut tasks = JoinSet::new();
    let writing = async {
        while let Some(Answer { message, socket }) = answered.recv().await {
            let Ok(frame) = postcard::to_stdvec(&message) else {
                return;
            };
            let sent = match socket {
                None => sink.send(Bytes::from(frame)).await,
                Some(socket) => send_with(sink.get_mut(), &frame, socket).await,
            };
            if sent.is_err() {
                return;
            }
        }
    };
    let reading = async {
        loop {
            // Until one has ended, the cell's next request waits in its socket.
            let place = tokio::select! {
                biased;
                // What it has sent before it went is not wanted any more.
                _gone = stream.get_ref().ready(Interest::PRIORITY) => return,
                place = Arc::clone(&at_once).acquire_owned() => place,
            };
            let Ok(place) = place else { return };
            let Some(Ok(frame)) = stream.next().await else {
                return;
            };
            let Ok(asked) = postcard::from_bytes::<FromCell>(&frame) else {
                return;
            };
            while tasks.try_join_next().is_some() {}
            let run = Rc::clone(&run);
            match asked {
                FromCell::Http(request) => {
                    tasks.spawn_local(async move {
                        run.serve_request(request).await;
                        drop(place);
                    });
                }
                FromCell::Sql { call, asked } => {
                    tasks.spawn_local(async move {
                        run.serve_sql(call, asked).await;
                        drop(place);
                    });
                }
                FromCell::Connect { call, grant } => {
                    let Ok(connection) = Arc::clone(&connections).try_acquire_owned() else {
                        let message = format!(
                            "an attempt may have {CONNECTIONS_MAX} connections open at a time"
                        );
                        let result = Err(HttpError::new(HttpErrorKind::LimitReached, message));
                        run.answer(ToCell::Connected { call, result }).await;
                        continue;
                    };
                    tasks.spawn_local(async move {
                        run.serve_connection(call, grant as usize).await;
                        drop(connection);
                    });
                }
            }
        }
    };
    tokio::select! {
        () = writing => {}
        () = reading => {}
    }
}

/// Sends a frame together with a socket. Not cancel safe: a part of the frame may have been sent.
async fn send_with(stream: &mut OwnedWriteHalf, frame: &[u8], socket: OwnedFd) -> io::Result<()> {
    let length = u32::try_from(frame.len()).map_err(io::Error::other)?;
    let bytes = [&length.to_be_bytes(), frame].concat();
    let sent = stream
        .as_ref()
        .async_io(Interest::WRITABLE, || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            let fds = [socket.as_fd()];
            ancillary.push(SendAncillaryMessage::ScmRights(&fds));
            let parts = [IoSlice::new(&bytes)];
            let sent = sendmsg(stream.as_ref(), &parts, &mut ancillary, SendFlags::NOSIGNAL);
            sent.map_err(io::Error::from)
        })
        .await?;
    stream.write_all(&bytes[sent..]).await
}
