//! Requests of the host itself: one over a socket of its own. The answer is untrusted, and bounded.

use std::io;
use std::os::unix::net::UnixStream as StdStream;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use host_core::egress::{
    FromCell, HttpAnswer, HttpError, HttpErrorKind, HttpRequest, HttpResponse, Pass, ToCell,
};
use tokio::net::UnixStream;
use tokio::time::timeout;
use tokio_util::codec::{Framed, LengthDelimitedCodec};

use super::Broker;

/// The largest request or answer, in bytes.
const FRAME_BYTES_MAX: usize = 512 << 10;

impl Broker {
    /// Sends a request, within what `pass` grants and the time that it leaves. Cancel safe: the request is cut.
    pub async fn send(
        &self,
        mut pass: Pass,
        request: HttpRequest,
    ) -> Result<HttpResponse, HttpError> {
        pass.has_lifeline = self.0.lifeline.get().is_some();
        let limit = Duration::from_millis(pass.time_left_ms);
        let unavailable = |cause: &dyn std::fmt::Display| {
            let message = format!("the host cannot send requests now: {cause}");
            HttpError::new(HttpErrorKind::Unavailable, message)
        };
        match timeout(limit, self.exchange(pass, request)).await {
            Ok(Ok(answer)) => answer.result,
            Ok(Err(error)) => Err(unavailable(&error)),
            Err(_) => Err(unavailable(&"the broker does not answer")),
        }
    }

    async fn exchange(&self, pass: Pass, request: HttpRequest) -> io::Result<HttpAnswer> {
        let broker = self.clone();
        let opened = tokio::task::spawn_blocking(move || broker.open(pass));
        let socket = StdStream::from(opened.await.map_err(io::Error::other)??);
        socket.set_nonblocking(true)?;
        let mut codec = LengthDelimitedCodec::new();
        codec.set_max_frame_length(FRAME_BYTES_MAX);
        let mut frames = Framed::new(UnixStream::from_std(socket)?, codec);
        let frame = postcard::to_stdvec(&FromCell::Http(request)).map_err(io::Error::other)?;
        frames.send(Bytes::from(frame)).await?;
        let frame = frames
            .next()
            .await
            .unwrap_or_else(|| Err(io::Error::other("the broker has ended")))?;
        match postcard::from_bytes(&frame).map_err(io::Error::other)? {
            ToCell::Http(answer) => Ok(answer),
            _ => Err(io::Error::other("the broker breaks the protocol")),
        }
    }
}
