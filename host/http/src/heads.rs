//! Follows the heads of the requests on a connection, beside the parser. The parser folds equal
//! Content-Length headers and drops one beside Transfer-Encoding, so code behind it cannot see that a proxy
//! in front may have read a body of another length.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many fields a head may have. The parser refuses more.
const FIELDS_MAX: usize = 100;

/// The number of the first request on a connection whose body length is unclear.
#[derive(Clone, Debug)]
pub(crate) struct Unclear(Arc<AtomicU64>);

impl Unclear {
    /// Returns whether it is the request with this number, counted from 0.
    pub(crate) fn is_request(&self, number: u64) -> bool {
        self.0.load(Ordering::Acquire) == number
    }
}

/// The requests of a connection, as far as their bytes have arrived.
pub(crate) struct Heads {
    head_bytes_max: usize,
    next: Part,
    /// How many heads are complete.
    ended: u64,
    unclear: Unclear,
}

/// What the next bytes belong to.
#[derive(Debug, PartialEq)]
enum Part {
    /// A head, with the part that has arrived.
    Head(Vec<u8>),
    /// This many bytes of a body, then a head.
    Body(u64),
    /// Chunks, or what comes after the last request of the connection.
    Rest,
}

impl Heads {
    /// Starts for a connection whose parser accepts heads of `head_bytes_max` bytes.
    pub(crate) fn new(head_bytes_max: usize) -> Self {
        Self {
            head_bytes_max,
            next: Part::Head(Vec::new()),
            ended: 0,
            unclear: Unclear(Arc::new(AtomicU64::new(u64::MAX))),
        }
    }

    /// Returns the request to refuse. It is known before the parser has the end of its head.
    pub(crate) fn unclear(&self) -> Unclear {
        self.unclear.clone()
    }

    /// Processes the next bytes for the parser.
    pub(crate) fn follow(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            bytes = match &mut self.next {
                Part::Rest => return,
                Part::Body(left) => {
                    let length = usize::try_from(*left).unwrap_or(usize::MAX);
                    let (body, rest) = bytes.split_at(length.min(bytes.len()));
                    *left -= body.len() as u64;
                    if *left == 0 {
                        self.next = Part::Head(Vec::new());
                    }
                    rest
                }
                Part::Head(begun) => {
                    let before = begun.len();
                    let head = if before == 0 {
                        read(bytes)
                    } else {
                        begun.extend_from_slice(bytes);
                        read(begun)
                    };
                    let Some((length, next)) = head else {
                        return self.wait(before, bytes);
                    };
                    self.end(next);
                    // An incomplete head ends in these bytes.
                    &bytes[length.saturating_sub(before)..]
                }
            };
        }
    }

    /// Keeps the part of a head that has arrived. A head that is too long is the last.
    fn wait(&mut self, before: usize, bytes: &[u8]) {
        if before + bytes.len() > self.head_bytes_max {
            self.end(None);
        } else if let Part::Head(begun) = &mut self.next
            && before == 0
        {
            begun.extend_from_slice(bytes);
        }
    }

    /// Continues after a head. `None` if it is unclear what follows.
    fn end(&mut self, next: Option<Part>) {
        let number = self.ended;
        self.ended += 1;
        self.next = next.unwrap_or_else(|| {
            self.unclear.0.store(number, Ordering::Release);
            Part::Rest
        });
    }
}

/// Reads a head: its length, and what follows it. `None` if it is not complete.
fn read(bytes: &[u8]) -> Option<(usize, Option<Part>)> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => Some((length, follows(request.headers))),
        Ok(httparse::Status::Partial) => None,
        Err(_) => Some((bytes.len(), None)),
    }
}

/// Returns what follows a head with these fields. `None` if it is unclear.
fn follows(fields: &[httparse::Header<'_>]) -> Option<Part> {
    let values = |name: &'static str| {
        let named = fields
            .iter()
            .filter(move |field| field.name.eq_ignore_ascii_case(name));
        named.map(|field| field.value.trim_ascii())
    };
    let (mut lengths, mut codings) = (values("content-length"), values("transfer-encoding"));
    match (
        lengths.next(),
        lengths.next(),
        codings.next(),
        codings.next(),
    ) {
        (None, None, None, None) => Some(Part::Head(Vec::new())),
        (Some(length), None, None, None) => {
            let digits = str::from_utf8(length).ok()?;
            let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
            match digits.parse().ok().filter(|_| is_number)? {
                0 => Some(Part::Head(Vec::new())),
                length => Some(Part::Body(length)),
            }
        }
        (None, None, Some(coding), None) => coding
            .eq_ignore_ascii_case(b"chunked")
            .then_some(Part::Rest),
        _ => None,
    }
}
