//! Sends raw bytes to an HTTP listener, to test malformed requests.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// How long to wait for an answer before the test fails.
const WAIT_MAX: Duration = Duration::from_mins(4);

/// How much of an answer is read at most, in bytes.
const ANSWER_BYTES_MAX: u64 = 4 << 20;

/// The answers on a connection until it was closed.
#[derive(Clone, Debug, PartialEq)]
pub struct Raw {
    /// The status of the first answer; `None` if the connection was closed without one.
    pub status: Option<u16>,
    /// The number of answers.
    pub answers: usize,
    /// The body of the last answer: a string if it is not JSON, `null` if it is empty.
    pub body: Value,
}

/// Connects to `address`.
///
/// # Panics
///
/// If nothing listens there.
pub fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the listener accepts connections");
    stream
        .set_read_timeout(Some(WAIT_MAX))
        .expect("a timeout can be set");
    stream
}

/// Sends `bytes`, shuts down the write side, and reads until the listener closes the connection.
///
/// # Panics
///
/// If nothing listens at `address`, or the listener does not close the connection in time.
pub fn exchange(address: &str, bytes: &[u8]) -> Raw {
    let mut stream = connect(address);
    // The listener may close the connection before all bytes are written.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    read(stream)
}

/// Sends a request that asks to close the connection, and reads until the listener does.
///
/// # Panics
///
/// If nothing listens at `address`, or the listener does not close the connection in time.
pub fn ask(address: &str, request: &[u8]) -> Raw {
    let mut stream = connect(address);
    // The listener may answer and close the connection before all bytes are written.
    let _ = stream.write_all(request);
    read(stream)
}

/// Reads until the listener closes the connection. A reset counts as closed.
///
/// # Panics
///
/// If the listener does not close the connection in time.
pub fn read(stream: TcpStream) -> Raw {
    let mut bytes = Vec::new();
    if let Err(error) = stream.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes) {
        let kind = error.kind();
        assert!(
            !matches!(
                kind,
                std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
            ),
            "the connection is still open after {WAIT_MAX:?}"
        );
    }
    // A body may name the protocol too.
    let is_status = |rest: &&str| rest.starts_with(|c: char| c.is_ascii_digit());
    let text = String::from_utf8_lossy(&bytes);
    let body = text.rsplit_once("\r\n\r\n").map_or("", |(_, body)| body);
    Raw {
        status: text
            .strip_prefix("HTTP/1.1 ")
            .and_then(|rest| rest.get(..3)?.parse().ok()),
        answers: text.split("HTTP/1.1 ").skip(1).filter(is_status).count(),
        body: if body.is_empty() {
            Value::Null
        } else {
            serde_json::from_str(body).unwrap_or_else(|_| Value::String(body.to_owned()))
        },
    }
}
