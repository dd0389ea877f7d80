//! The conversation of one run with the broker, which sends its requests to HTTP servers.

use std::os::unix::net::UnixStream as StdStream;

use futures_util::{SinkExt as _, StreamExt as _};
use host_core::egress::{
    BODY_BYTES_MAX, EGRESS_FRAME_BYTES_MAX, HEADERS_BYTES_MAX, HttpAnswer, HttpError,
    HttpErrorKind, HttpRequest, HttpResponse, URL_BYTES_MAX,
};
use tokio::net::UnixStream;
use tokio_util::bytes::Bytes;
use tokio_util::codec::{Framed, LengthDelimitedCodec};

/// The message to a guest without a grant.
const NO_GRANT: &str = "the manifest grants this handler no HTTP requests; add [[handlers.NAME.http]] with \
                        to = \"https://…\" to it, and the server to grants.http of the host";

/// A run's way to HTTP servers. Its requests are cut when it is dropped.
pub(crate) enum Egress {
    NotGranted,
    /// The host could not connect it.
    Failed(String),
    /// No request has been made yet.
    Idle(StdStream),
    Open(Box<Framed<UnixStream, LengthDelimitedCodec>>),
}

impl Egress {
    pub(crate) fn new(socket: Option<Result<StdStream, String>>) -> Self {
        match socket {
            None => Self::NotGranted,
            Some(Err(cause)) => Self::Failed(cause),
            Some(Ok(socket)) => Self::Idle(socket),
        }
    }

    /// Returns the size of the largest request that the guest may pass, in bytes.
    pub(crate) fn request_bytes_max(&self) -> u64 {
        match self {
            Self::NotGranted => 0,
            _ => (BODY_BYTES_MAX + HEADERS_BYTES_MAX + URL_BYTES_MAX) as u64,
        }
    }

    /// Sends a request and waits for the response. Not cancel safe: drop it with the run.
    pub(crate) async fn send(&mut self, request: &HttpRequest) -> Result<HttpResponse, HttpError> {
        let stream = self.open()?;
        let frame = postcard::to_stdvec(request).map_err(|error| unavailable(&error))?;
        if frame.len() > EGRESS_FRAME_BYTES_MAX {
            let message = "the request is too large";
            return Err(HttpError::new(HttpErrorKind::InvalidRequest, message));
        }
        let sent = stream.send(Bytes::from(frame)).await;
        sent.map_err(|error| unavailable(&error))?;
        match stream.next().await {
            Some(Ok(frame)) => {
                let answer = postcard::from_bytes::<HttpAnswer>(&frame);
                answer.map_err(|error| unavailable(&error))?.result
            }
            Some(Err(error)) => Err(unavailable(&error)),
            None => Err(unavailable(&"it has ended")),
        }
    }

    fn open(&mut self) -> Result<&mut Framed<UnixStream, LengthDelimitedCodec>, HttpError> {
        match std::mem::replace(self, Self::NotGranted) {
            Self::Idle(socket) => {
                let opened = socket
                    .set_nonblocking(true)
                    .and_then(|()| UnixStream::from_std(socket));
                *self = match opened {
                    Ok(stream) => {
                        let mut codec = LengthDelimitedCodec::new();
                        codec.set_max_frame_length(EGRESS_FRAME_BYTES_MAX);
                        Self::Open(Box::new(Framed::new(stream, codec)))
                    }
                    Err(error) => Self::Failed(error.to_string()),
                };
            }
            other => *self = other,
        }
        match self {
            Self::Open(stream) => Ok(stream),
            Self::Failed(cause) => Err(unavailable(cause)),
            Self::NotGranted | Self::Idle(_) => {
                Err(HttpError::new(HttpErrorKind::NotGranted, NO_GRANT))
            }
        }
    }
}

fn unavailable(cause: &dyn std::fmt::Display) -> HttpError {
    let message = format!("the host cannot send requests now: {cause}");
    HttpError::new(HttpErrorKind::Unavailable, message)
}
