//! The conversation of one run with the desk, where the host answers what guests ask of the store.

use std::fmt::Display;
use std::os::unix::net::UnixStream as StdStream;

use futures_util::{SinkExt as _, StreamExt as _};
use host_core::desk::{DESK_FRAME_BYTES_MAX, DeskAnswer, DeskError, DeskErrorKind, DeskRequest};
use tokio::net::UnixStream;
use tokio_util::bytes::Bytes;
use tokio_util::codec::{Framed, LengthDelimitedCodec};

/// The message to a guest without a grant.
const NO_GRANT: &str = "the manifest grants this handler neither jobs to enqueue nor state nor secrets nor \
                        artifacts nor steps; add [[handlers.NAME.jobs]] with handlers = [\"…\"], or [handlers.NAME.state], or \
                        secrets = [\"…\"], or artifact_mib = 64, or steps = 100 to it";

/// A run's way to the desk.
pub(crate) enum Desk {
    NotGranted,
    /// The host could not connect it, or it is broken.
    Failed(String),
    /// Nothing was asked yet.
    Idle(StdStream),
    Open(Box<Framed<UnixStream, LengthDelimitedCodec>>),
}

impl Desk {
    pub(crate) fn new(socket: Option<Result<StdStream, String>>) -> Self {
        match socket {
            None => Self::NotGranted,
            Some(Err(cause)) => Self::Failed(cause),
            Some(Ok(socket)) => Self::Idle(socket),
        }
    }

    /// Asks the desk and waits for its answer. Not cancel safe: drop it with the run.
    pub(crate) async fn ask(&mut self, request: &DeskRequest) -> Result<DeskAnswer, DeskError> {
        let stream = self.open()?;
        let frame = postcard::to_stdvec(request).map_err(unavailable)?;
        if frame.len() > DESK_FRAME_BYTES_MAX {
            let message = "the request is too large";
            return Err(DeskError::new(DeskErrorKind::InvalidRequest, message));
        }
        let answer = match stream.send(Bytes::from(frame)).await {
            Ok(()) => stream.next().await,
            Err(error) => Some(Err(error)),
        };
        match answer {
            Some(Ok(frame)) => {
                let answer = postcard::from_bytes::<Result<DeskAnswer, DeskError>>(&frame);
                answer.map_err(unavailable)?
            }
            Some(Err(error)) => Err(unavailable(error)),
            None => Err(unavailable("the host has ended it")),
        }
    }

    fn open(&mut self) -> Result<&mut Framed<UnixStream, LengthDelimitedCodec>, DeskError> {
        match std::mem::replace(self, Self::NotGranted) {
            Self::Idle(socket) => {
                let opened = socket
                    .set_nonblocking(true)
                    .and_then(|()| UnixStream::from_std(socket));
                *self = match opened {
                    Ok(stream) => {
                        let mut codec = LengthDelimitedCodec::new();
                        codec.set_max_frame_length(DESK_FRAME_BYTES_MAX);
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
                Err(DeskError::new(DeskErrorKind::NotGranted, NO_GRANT))
            }
        }
    }
}

fn unavailable(cause: impl Display) -> DeskError {
    let message = format!("the host cannot do what this handler asks for: {cause}");
    DeskError::new(DeskErrorKind::Unavailable, message)
}
