//! What is recorded of the requests that an attempt made to HTTP servers, as the broker reports it. Paths, queries,
//! headers and bodies are not: each of them may hold a secret or a person's data.

use serde::{Deserialize, Serialize};

use crate::egress::HttpErrorKind;

/// How many requests of an attempt are recorded one by one. The others are only counted.
pub(crate) const REQUESTS_KEPT: usize = 100;

/// The longest origin that is recorded, in bytes: a scheme, a name as DNS limits it, and a port.
pub const ORIGIN_BYTES_MAX: usize = 272;

/// The largest message from the broker to the host, in bytes: what was asked, with the longest pattern of a path.
pub const REPORT_BYTES_MAX: usize = 4 << 10;

/// What the broker tells the host. One message is one packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromBroker {
    /// A request has begun.
    Began {
        /// The number of [`ReportAs`].
        run: u64,
        /// The number of the request, unique for the life of the broker.
        request: u64,
        /// Milliseconds from the start of the attempt.
        at_ms: u64,
        /// The handler that makes it.
        handler: String,
        /// The id of its span, if it has one.
        span: Option<u64>,
        asked: RequestTarget,
    },
    /// A request has ended. Comes before its cell gets the answer.
    Ended {
        run: u64,
        request: u64,
        ended: RequestReport,
    },
    /// A sign of life.
    Alive,
}

/// The requests of one attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requests {
    /// The first ones, in the order in which they began: at most [`REQUESTS_KEPT`].
    pub first: Vec<RequestRecord>,
    pub total: u64,
    /// Those without an answer.
    pub failed: u64,
    /// Of all bodies that were sent.
    pub sent_bytes: u64,
    /// Of all bodies that handlers got.
    pub received_bytes: u64,
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestRecord {
    /// When it began, in milliseconds from the start of the attempt.
    pub at_ms: u64,
    pub asked: RequestTarget,
    pub ended: RequestReport,
}

/// What was requested, as far as it could be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestTarget {
    pub method: Option<String>,
    /// Scheme, host, and port unless it is the scheme's own: `https://api.example.com`.
    pub origin: Option<String>,
    /// The pattern of the manifest that allowed the path, if it names patterns.
    pub path_pattern: Option<String>,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestReport {
    pub end: RequestEnd,
    /// The size of the body that was sent.
    pub sent_bytes: u64,
    /// The size of the body that the handler got.
    pub received_bytes: u64,
    /// Microseconds from its beginning.
    pub took_us: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RequestEnd {
    /// The server answered with this status.
    Answered(u16),
    Failed(HttpErrorKind),
    /// The attempt ended first.
    Cut,
    /// The connection was opened, and one side closed it.
    Closed,
}

/// All ends without an answer.
pub const FAILED_ENDS: [RequestEnd; 17] = [
    RequestEnd::Failed(HttpErrorKind::NotGranted),
    RequestEnd::Failed(HttpErrorKind::AddressNotAllowed),
    RequestEnd::Failed(HttpErrorKind::InvalidRequest),
    RequestEnd::Failed(HttpErrorKind::RequestTooLarge),
    RequestEnd::Failed(HttpErrorKind::NameNotFound),
    RequestEnd::Failed(HttpErrorKind::ConnectionRefused),
    RequestEnd::Failed(HttpErrorKind::CertificateRefused),
    RequestEnd::Failed(HttpErrorKind::ResponseIncomplete),
    RequestEnd::Failed(HttpErrorKind::ResponseEncoded),
    RequestEnd::Failed(HttpErrorKind::Unreachable),
    RequestEnd::Failed(HttpErrorKind::TimedOut),
    RequestEnd::Failed(HttpErrorKind::TooLarge),
    RequestEnd::Failed(HttpErrorKind::LimitReached),
    RequestEnd::Failed(HttpErrorKind::Unavailable),
    RequestEnd::Failed(HttpErrorKind::LoginRefused),
    RequestEnd::Failed(HttpErrorKind::StatementRefused),
    RequestEnd::Cut,
];

impl RequestEnd {
    /// Returns the status of the answer, if there is one.
    pub const fn status(self) -> Option<u16> {
        match self {
            Self::Answered(status) => Some(status),
            Self::Failed(_) | Self::Cut | Self::Closed => None,
        }
    }

    /// Returns the label of metrics: the class of the status, or why there is no answer.
    pub const fn label(self) -> &'static str {
        match (self, self.error()) {
            (_, Some(error)) => error,
            (Self::Answered(100..200), _) => "1xx",
            (Self::Answered(200..300), _) => "2xx",
            (Self::Answered(300..400), _) => "3xx",
            (Self::Answered(400..500), _) => "4xx",
            (Self::Closed, _) => "closed",
            (Self::Answered(_) | Self::Failed(_) | Self::Cut, None) => "5xx",
        }
    }

    /// Returns the stable name of why there is no answer, if there is none.
    pub const fn error(self) -> Option<&'static str> {
        match self {
            Self::Answered(_) | Self::Closed => None,
            Self::Failed(kind) => Some(kind.as_str()),
            Self::Cut => Some("cut"),
        }
    }
}

impl Requests {
    /// Adds a request that begins. Returns its place, if it is recorded.
    pub fn begin(&mut self, at_ms: u64, asked: &RequestTarget) -> Option<usize> {
        self.total = self.total.saturating_add(1);
        if self.first.len() >= REQUESTS_KEPT {
            return None;
        }
        self.first.push(RequestRecord {
            at_ms,
            asked: asked.clone(),
            ended: RequestReport {
                end: RequestEnd::Cut,
                sent_bytes: 0,
                received_bytes: 0,
                took_us: 0,
            },
        });
        Some(self.first.len() - 1)
    }

    /// Ends a request that began at `place`.
    pub fn end(&mut self, place: Option<usize>, ended: RequestReport) {
        self.failed = (self.failed).saturating_add(u64::from(ended.end.error().is_some()));
        self.sent_bytes = self.sent_bytes.saturating_add(ended.sent_bytes);
        self.received_bytes = self.received_bytes.saturating_add(ended.received_bytes);
        if let Some(record) = place.and_then(|place| self.first.get_mut(place)) {
            record.ended = ended;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_requests_are_recorded_and_all_are_counted() {
        let mut requests = Requests::default();
        for number in 0..150 {
            let place = requests.begin(number, &RequestTarget::default());
            let end = if number % 2 == 0 {
                RequestEnd::Answered(200)
            } else {
                RequestEnd::Failed(HttpErrorKind::TimedOut)
            };
            let ended = RequestReport {
                end,
                sent_bytes: 1,
                received_bytes: 2,
                took_us: 3,
            };
            requests.end(place, ended);
        }
        assert_eq!(requests.first.len(), REQUESTS_KEPT);
        assert_eq!(requests.first[99].at_ms, 99);
        assert_eq!(requests.first[99].ended.end.error(), Some("timed_out"));
        assert_eq!(requests.first[98].ended.end.status(), Some(200));
        let counts = (requests.total, requests.failed);
        assert_eq!(counts, (150, 75));
        assert_eq!((requests.sent_bytes, requests.received_bytes), (150, 300));
    }
}
