//! A layer between a connection and the HTTP parser. The parser refuses bytes that are not a request before
//! any route is known, with an empty answer. This layer replaces it by a problem document, and follows the
//! heads that the parser reads.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::heads::{Heads, Unclear};
use crate::problem::Problem;
use crate::refusal::Refusal;

/// The beginnings of the parser's refusals, and the refusal that each means.
const REFUSALS: [(&[u8], u16); 3] = [
    (b"HTTP/1.1 400 ", 400),
    (b"HTTP/1.1 414 ", 414),
    (b"HTTP/1.1 431 ", 431),
];

/// Tells browsers to use nothing but TLS, for a year.
pub(crate) const HSTS: &str = "max-age=31536000";

/// Never in a refusal of a route, because those have a document.
const EMPTY: &[u8] = b"\r\ncontent-length: 0\r\n";

/// How a connection of HTTP/2 begins. The parser would close it without an answer.
const HTTP2: &[u8] = b"PRI * HTTP/2";

/// A stream on which empty refusals get a document, and whose heads are followed.
pub(crate) struct ProblemStream<S> {
    stream: S,
    header_bytes_max: usize,
    is_tls: bool,
    heads: Heads,
    /// How much of [`HTTP2`] the connection has begun with, if it may still be that.
    http2: Option<usize>,
    /// The rest of the answer that replaces the parser's, and the length of the parser's.
    instead: Option<(Vec<u8>, usize)>,
    written: usize,
}

impl<S> ProblemStream<S> {
    /// Wraps `stream`. Its parser accepts headers of `header_bytes_max` bytes.
    pub(crate) fn new(stream: S, header_bytes_max: usize, is_tls: bool) -> Self {
        Self {
            stream,
            header_bytes_max,
            is_tls,
            heads: Heads::new(header_bytes_max),
            http2: Some(0),
            instead: None,
            written: 0,
        }
    }

    /// Returns the request to refuse. It is known before the parser has the end of its head.
    pub(crate) fn unclear(&self) -> Unclear {
        self.heads.unclear()
    }

    /// Makes the first line of HTTP/2 one of a version that the parser refuses with an answer.
    fn refuse_http2(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            let Some(seen) = self.http2 else { return };
            let is_next = HTTP2.get(seen) == Some(byte);
            if is_next && seen + 1 == HTTP2.len() {
                *byte = b'9';
            }
            self.http2 = is_next.then_some(seen + 1);
        }
    }

    /// Returns the answer that replaces `bytes`, if they are a refusal of the parser.
    fn explain(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let (_, status) = REFUSALS.iter().find(|(head, _)| bytes.starts_with(head))?;
        if !bytes.windows(EMPTY.len()).any(|part| part == EMPTY) {
            return None;
        }
        let refusal = match status {
            400 => Refusal::NotHttp,
            _ => Refusal::HeaderTooLarge {
                limit_bytes: self.header_bytes_max,
            },
        };
        let document = Problem::from(refusal).with_status(*status).document();
        let line = bytes
            .split(|byte| *byte == b'\r')
            .next()
            .unwrap_or_default();
        let mut answer = line.to_vec();
        let hsts = if self.is_tls {
            format!("\r\nstrict-transport-security: {HSTS}")
        } else {
            String::new()
        };
        let head = format!(
            "\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\nconnection: close{hsts}\r\n\r\n",
            document.len()
        );
        answer.extend_from_slice(head.as_bytes());
        answer.extend_from_slice(&document);
        Some(answer)
    }
}

impl<S: AsyncWrite + Unpin> ProblemStream<S> {
    /// Writes the answer that replaces the parser's. Returns the length of the parser's once all is written.
    fn poll_instead(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        while let Some((answer, length)) = &self.instead {
            let rest = &answer[self.written..];
            if rest.is_empty() {
                let length = *length;
                self.instead = None;
                return Poll::Ready(Ok(length));
            }
            match ready!(Pin::new(&mut self.stream).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.written += written,
            }
        }
        Poll::Ready(Ok(0))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ProblemStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        self.refuse_http2(&mut buffer.filled_mut()[before..]);
        self.heads.follow(&buffer.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ProblemStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.instead.is_none() {
            match self.explain(bytes) {
                None => return Pin::new(&mut self.stream).poll_write(cx, bytes),
                Some(answer) => {
                    self.instead = Some((answer, bytes.len()));
                    self.written = 0;
                }
            }
        }
        self.poll_instead(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let first = slices.first().map_or(&[][..], |slice| slice);
        if self.instead.is_some() || self.explain(first).is_some() {
            return self.poll_write(cx, first);
        }
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
