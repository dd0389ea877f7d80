//! One connection to the stream of events. Who listens for long connects again when it ends.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead as _, BufReader};
use std::time::Duration;

use serde_json::from_str;
use ureq::BodyReader;
use ureq::http::Request;

use super::{Client, Error, with_query};
use crate::event::{ChangeView, EventsQuery, GapView, ProgressEventView};
use crate::path;

/// How long a connection is used. A host that is gone without a word is noticed then.
const CONNECTION_MAX: Duration = Duration::from_mins(5);

/// What happened.
#[derive(Debug)]
pub enum Event {
    /// A job entered, changed or left its state.
    Changed {
        id: u64,
        change: ChangeView<'static>,
    },
    /// A running job reported progress.
    Progressed(ProgressEventView<'static>),
    /// Changes were missed that the host no longer keeps.
    Missed { id: u64, gap: GapView },
}

/// What a stream says next.
#[derive(Debug)]
pub enum StreamItem {
    /// Something happened.
    Event(Event),
    /// The stream lives, and has everything up to its last id.
    Alive,
}

/// A connection with a stream of events.
pub struct Listening {
    reader: BufReader<BodyReader<'static>>,
    last_id: Option<u64>,
}

impl fmt::Debug for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Listening");
        shown.field("last_id", &self.last_id);
        shown.finish_non_exhaustive()
    }
}

impl Client {
    /// Listens to what happens from now on, or after the event with the id `after`.
    pub fn listen(&self, query: &EventsQuery, after: Option<u64>) -> Result<Listening, Error> {
        let path = with_query(path::EVENTS, query)?;
        let mut request = Request::get(self.url(&path));
        if let Some(after) = after {
            request = request.header("last-event-id", after);
        }
        let response = self.respond(request.body(()), CONNECTION_MAX, true)?;
        let mut listening = Listening {
            reader: BufReader::new(response.into_body().into_reader()),
            last_id: after,
        };
        if after.is_none() {
            // The first block says where the stream begins.
            listening.block(self)?;
        }
        Ok(listening)
    }
}

impl Listening {
    /// Returns the id after which another stream continues.
    pub fn last_id(&self) -> Option<u64> {
        self.last_id
    }

    /// Waits for what the stream says next; `None` is its end.
    pub fn next(&mut self, client: &Client) -> Result<Option<StreamItem>, Error> {
        let Some(block) = self.block(client)? else {
            return Ok(None);
        };
        let (kind, data) = (block.get("event"), block.get("data"));
        let (Some(kind), Some(data)) = (kind, data) else {
            return Ok(Some(StreamItem::Alive));
        };
        let id = self.last_id.unwrap_or_default();
        let event = match kind.as_str() {
            "change" => from_str(data).map(|change| Event::Changed { id, change }),
            "progress" => from_str(data).map(Event::Progressed),
            "gap" => from_str(data).map(|gap| Event::Missed { id, gap }),
            _ => return Ok(Some(StreamItem::Alive)),
        };
        Ok(Some(StreamItem::Event(event.map_err(Error::Unreadable)?)))
    }

    /// Reads lines up to an empty one. Those of a host have one line of data.
    fn block(&mut self, client: &Client) -> Result<Option<BTreeMap<String, String>>, Error> {
        let mut block = BTreeMap::new();
        loop {
            let mut line = String::new();
            let read = self.reader.read_line(&mut line);
            let bytes = read.map_err(|error| client.no_answer(&ureq::Error::Io(error), true))?;
            if bytes == 0 {
                return Ok(None);
            }
            let line = line.trim_end_matches(['\r', '\n']);
            if line.is_empty() {
                let id = block.get("id").and_then(|id: &String| id.parse().ok());
                self.last_id = id.or(self.last_id);
                return Ok(Some(block));
            }
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            let value = Cow::from(value.strip_prefix(' ').unwrap_or(value));
            block.insert(name.to_owned(), value.into_owned());
        }
    }
}
