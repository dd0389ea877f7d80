//! The ids of a request, and a scanner that finds those of an outcome in a text that is not JSON or
//! is too large to keep. Takes bytes in any pieces. Pure.

#[cfg(test)]
mod tests;

use std::ops::Range;

/// The longest id that is accepted and echoed, in bytes.
pub(super) const ID_BYTES_MAX: usize = 4_096;

/// The longest text that is kept while it is scanned, in bytes: an id with each character escaped.
const TEXT_BYTES_MAX: usize = 6 * ID_BYTES_MAX + 2;

/// Both ids of a request, as sent by the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ids {
    pub(super) request: String,
    pub(super) job: String,
}

/// A text of the scanned message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum IdText {
    #[default]
    Nothing,
    Text(String),
    /// Several, or one that is not an id.
    Unclear,
}

impl IdText {
    fn add(&mut self, text: Option<String>) {
        *self = match (&*self, text) {
            (Self::Nothing, Some(text)) => Self::Text(text),
            _ => Self::Unclear,
        };
    }
}

/// The names whose values are looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Name {
    #[default]
    Other,
    Kind,
    Payload,
    Request,
    Job,
    Delay,
}

/// Where the next byte stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Position {
    #[default]
    Outside,
    InText,
    /// Behind a backslash.
    Escaped,
}

/// What is known of a message so far.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// How many bytes were scanned.
    at: usize,
    depth: usize,
    /// Whether the outermost value is an object.
    is_object: bool,
    /// Whether the scan is in the object `payload`.
    in_payload: bool,
    /// Whether the next text is a name.
    name_follows: bool,
    name: Name,
    place: Position,
    /// The current text with its quotation marks.
    text: Vec<u8>,
    kind: IdText,
    request: IdText,
    job: IdText,
    delay_from: Option<usize>,
    delay: Option<Range<usize>>,
}

impl Scan {
    /// Scans a whole text.
    pub(super) fn of(text: &[u8]) -> Self {
        let mut scan = Self::default();
        scan.feed(text);
        scan
    }

    /// Scans the next bytes.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if self.place == Position::Outside {
                self.other_byte(*byte);
            } else {
                self.text_byte(*byte);
            }
            self.at += 1;
        }
    }

    /// Returns the ids of an outcome, if they are clear. A missing job id is the empty text.
    pub(super) fn ids(self) -> Option<Ids> {
        let is_outcome = match &self.kind {
            IdText::Nothing => true,
            IdText::Text(kind) => kind == "response",
            IdText::Unclear => false,
        };
        let job = match self.job {
            IdText::Text(job) => job,
            IdText::Nothing => String::new(),
            IdText::Unclear => return None,
        };
        match self.request {
            IdText::Text(request) if is_outcome => Some(Ids { request, job }),
            _ => None,
        }
    }

    /// Returns the text with a `retry_after_seconds` that JSON has no number for written as one, or
    /// `None` if there is no such value.
    pub(super) fn with_delay_as_number(&self, text: &[u8]) -> Option<Vec<u8>> {
        let place = self.delay.clone()?;
        let number: &[u8] = match text.get(place.clone())?.trim_ascii() {
            b"NaN" | b"-Infinity" => b"0",
            b"Infinity" => b"1e300",
            _ => return None,
        };
        Some([&text[..place.start], number, &text[place.end..]].concat())
    }

    fn is_named(&self) -> bool {
        self.is_object && (self.depth == 1 || self.depth == 2 && self.in_payload)
    }

    fn text_byte(&mut self, byte: u8) {
        if self.text.len() <= TEXT_BYTES_MAX {
            self.text.push(byte);
        }
        self.place = match (self.place, byte) {
            (Position::InText, b'\\') => Position::Escaped,
            (Position::InText, b'"') => {
                self.text_ended();
                Position::Outside
            }
            _ => Position::InText,
        };
    }

    fn text_ended(&mut self) {
        if !self.is_named() {
            return;
        }
        let whole = (self.text.len() <= TEXT_BYTES_MAX).then_some(self.text.as_slice());
        let text = whole.and_then(|text| serde_json::from_slice::<String>(text).ok());
        if self.name_follows {
            self.name = match (self.depth, text.as_deref()) {
                (1, Some("type")) => Name::Kind,
                (1, Some("payload")) => Name::Payload,
                (2, Some("request_id")) => Name::Request,
                (2, Some("job_id")) => Name::Job,
                (2, Some("retry_after_seconds")) => Name::Delay,
                _ => Name::Other,
            };
            return;
        }
        let id = text.filter(|text| text.len() <= ID_BYTES_MAX);
        match self.name {
            Name::Kind => self.kind.add(id),
            Name::Request => self.request.add(id),
            Name::Job => self.job.add(id),
            Name::Other | Name::Payload | Name::Delay => {}
        }
    }

    fn other_byte(&mut self, byte: u8) {
        match byte {
            b'"' => {
                self.place = Position::InText;
                self.text.clear();
                self.text.push(byte);
            }
            b'{' | b'[' => {
                self.depth += 1;
                match self.depth {
                    1 => self.is_object = byte == b'{',
                    2 => self.in_payload = byte == b'{' && self.name == Name::Payload,
                    _ => {}
                }
                self.name_follows = byte == b'{';
            }
            b'}' | b']' => {
                self.value_ended();
                self.depth = self.depth.saturating_sub(1);
                if self.depth < 2 {
                    self.in_payload = false;
                }
            }
            b',' => {
                self.value_ended();
                self.name_follows = true;
            }
            b':' => {
                self.name_follows = false;
                if self.is_named() && self.name == Name::Delay {
                    self.delay_from = Some(self.at + 1);
                }
            }
            _ => {}
        }
    }

    fn value_ended(&mut self) {
        if !self.is_named() {
            return;
        }
        if let Some(from) = self.delay_from.take() {
            self.delay = Some(from..self.at);
        }
        self.name = Name::Other;
    }
}
