//! A client for RRQ's runner protocol, which can send valid messages and arbitrary bytes.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{SystemTime, UNIX_EPOCH};

use host_core::time::Time;
use serde_json::{Value, json};

use crate::raw::connect;

/// The largest payload that each side accepts, in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 16 << 20;

/// One connection to a runner.
pub struct Connection {
    stream: TcpStream,
}

/// Returns a frame: the payload with its length before it.
///
/// # Panics
///
/// If the payload has 4 GiB or more.
pub fn frame(payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a length of four bytes");
    [&length.to_be_bytes(), payload].concat()
}

/// Makes a request for the first attempt of the job `job-ID`, without a deadline.
pub fn request(id: &str, function: &str, params: &Value) -> Value {
    let job = format!("job-{id}");
    json!({"type": "request", "payload": {
        "protocol_version": "2",
        "request_id": id,
        "job_id": job,
        "function_name": function,
        "params": params,
        "context": {
            "job_id": job,
            "attempt": 1,
            "enqueue_time": "2026-01-01T00:00:00Z",
            "queue_name": "rrq:queue:default",
            "deadline": null,
            "trace_context": null,
            "worker_id": "rrq_worker_1",
        },
    }})
}

/// Adds a deadline to a request.
///
/// # Panics
///
/// If the message is not a request.
pub fn within_ms(mut request: Value, ms: u64) -> Value {
    let deadline = wall().plus_ms(ms).to_rfc3339();
    *request
        .pointer_mut("/payload/context/deadline")
        .expect("a request has a context") = deadline.into();
    request
}

/// Makes a cancel for one request of the job `job-ID`, or for all of its requests.
pub fn cancel(id: &str, request: Option<&str>, hard_kill: bool) -> Value {
    json!({"type": "cancel", "payload": {
        "protocol_version": "2",
        "job_id": format!("job-{id}"),
        "request_id": request,
        "hard_kill": hard_kill,
    }})
}

fn wall() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let ms = since.expect("the clock is set").as_millis();
    Time(i64::try_from(ms).expect("the clock is set"))
}

impl Connection {
    /// Connects to a runner at `address`.
    ///
    /// # Panics
    ///
    /// If nothing listens there.
    pub fn open(address: &str) -> Self {
        let stream = connect(address);
        stream.set_nodelay(true).expect("a socket can be set");
        Self { stream }
    }

    /// Returns a second handle of the same connection.
    ///
    /// # Panics
    ///
    /// If the socket cannot be duplicated.
    #[must_use]
    pub fn share(&self) -> Self {
        let stream = self.stream.try_clone().expect("a socket can be shared");
        Self { stream }
    }

    /// Sends bytes. Returns false if the runner has closed the connection.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// Sends one message.
    pub fn send(&mut self, message: &Value) {
        self.send_bytes(&frame(message.to_string().as_bytes()));
    }

    /// Shuts down the write side of the connection.
    pub fn end(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Returns the payload of the next answer; `None` if the runner has closed the connection.
    ///
    /// # Panics
    ///
    /// If there is neither in time, or the answer is not a response as documented.
    pub fn answer_or_end(&mut self) -> Option<Value> {
        let mut length = [0; 4];
        self.read(&mut length)?;
        let length = u32::from_be_bytes(length) as usize;
        assert!((1..=PAYLOAD_BYTES_MAX).contains(&length), "{length} bytes");
        let mut payload = vec![0; length];
        self.read(&mut payload)?;
        let mut message: Value = serde_json::from_slice(&payload).expect("an answer is JSON");
        assert_eq!(message["type"], "response", "{message}");
        let payload = message["payload"].take();
        let mut fields: Vec<&str> = payload
            .as_object()
            .expect("a payload is an object")
            .keys()
            .map(String::as_str)
            .collect();
        fields.sort_unstable();
        let expected = [
            "error",
            "job_id",
            "request_id",
            "result",
            "retry_after_seconds",
            "status",
        ];
        assert_eq!(fields, expected, "{payload}");
        Some(payload)
    }

    /// Returns the payload of the next answer.
    ///
    /// # Panics
    ///
    /// If there is no answer.
    pub fn answer(&mut self) -> Value {
        self.answer_or_end().expect("the runner answers")
    }

    /// Sends a message and returns the payload of the answer.
    pub fn ask(&mut self, message: &Value) -> Value {
        self.send(message);
        self.answer()
    }

    /// Fills `bytes`. Returns `None` if the runner has closed the connection.
    fn read(&mut self, bytes: &mut [u8]) -> Option<()> {
        match self.stream.read_exact(bytes) {
            Ok(()) => Some(()),
            Err(error) => {
                let kind = error.kind();
                let late = matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut);
                assert!(
                    !late,
                    "the runner neither answered nor closed the connection in time"
                );
                None
            }
        }
    }
}
