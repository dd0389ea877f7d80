//! Talks to a listener in bytes, as no well-behaved client would.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// How long an answer may take before the listener counts as hung.
const PATIENCE: Duration = Duration::from_secs(90);

/// The most bytes of an answer that are read.
const ANSWER_BYTES_MAX: u64 = 4 << 20;

/// What came back on a connection until it was closed.
#[derive(Clone, Debug, PartialEq)]
pub struct Raw {
    /// The status of the first answer; `None` if the connection was closed without one.
    pub status: Option<u16>,
    /// How many answers came.
    pub answers: usize,
    /// The body of the last one; text if it is no JSON, `null` if it is empty.
    pub body: Value,
}

/// Connects to `address`.
///
/// # Panics
///
/// If nobody listens there.
pub fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).expect("somebody listens");
    stream
        .set_read_timeout(Some(PATIENCE))
        .expect("a timeout can be set");
    stream
}

/// Sends `bytes` and says that no more will come; reads until the listener closes.
///
/// # Panics
///
/// If nobody listens at `address`, or the listener does not close in time.
pub fn exchange(address: &str, bytes: &[u8]) -> Raw {
    let mut stream = connect(address);
    // The listener may close while it is still being written to.
    let _sent = stream.write_all(bytes);
    let _closed = stream.shutdown(Shutdown::Write);
    read(stream)
}

/// Reads until the listener closes; a reset counts as closed.
///
/// # Panics
///
/// If the listener does not close in time.
pub fn read(stream: TcpStream) -> Raw {
    let mut bytes = Vec::new();
    if let Err(error) = stream.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes) {
        let kind = error.kind();
        assert!(
            !matches!(
                kind,
                std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
            ),
            "the connection is still open after {PATIENCE:?}"
        );
    }
    let text = String::from_utf8_lossy(&bytes);
    let body = text.rsplit_once("\r\n\r\n").map_or("", |(_, body)| body);
    Raw {
        status: text
            .strip_prefix("HTTP/1.1 ")
            .and_then(|rest| rest.get(..3)?.parse().ok()),
        answers: text.matches("HTTP/1.1 ").count(),
        body: if body.is_empty() {
            Value::Null
        } else {
            serde_json::from_str(body).unwrap_or_else(|_| Value::String(body.to_owned()))
        },
    }
}
