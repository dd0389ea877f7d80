//! The stream of events, which continues where it was when a connection breaks.

use std::time::Duration;

use host_api::client::{Error, Event, Listening, StreamItem};
use host_api::event::EventsQuery;

use crate::patience::Patience;
use crate::{Client, has_ended};

/// What happens, as an iterator.
#[derive(Debug)]
pub struct Events<'a> {
    client: &'a Client,
    query: EventsQuery,
    open: Option<Listening>,
    last_id: Option<u64>,
    patience: Option<Patience>,
    ended: bool,
}

impl<'a> Events<'a> {
    pub(crate) fn open(
        client: &'a Client,
        query: EventsQuery,
        after: Option<u64>,
    ) -> Result<Self, Error> {
        let mut events = Self {
            client,
            query,
            open: None,
            last_id: after,
            patience: None,
            ended: false,
        };
        events.connect()?;
        Ok(events)
    }

    /// Returns the id after which another stream continues.
    pub fn last_id(&self) -> Option<u64> {
        self.last_id
    }

    fn connect(&mut self) -> Result<(), Error> {
        let (client, after) = (self.client, self.last_id);
        let open = client.patiently(true, || client.inner.listen(&self.query, after))?;
        self.last_id = open.last_id();
        self.open = Some(open);
        Ok(())
    }

    /// Returns what happens next; `None` is the end of the stream.
    fn step(&mut self) -> Result<Option<Event>, Error> {
        loop {
            if self.open.is_none() {
                self.connect()?;
            }
            let Some(open) = &mut self.open else {
                return Ok(None);
            };
            let next = open.next(&self.client.inner);
            self.last_id = open.last_id();
            let broken = match next {
                Ok(Some(item)) => {
                    self.patience = None;
                    match item {
                        StreamItem::Event(event) => return Ok(Some(event)),
                        StreamItem::Alive => continue,
                    }
                }
                Ok(None) => None,
                Err(error @ Error::NoAnswer { .. }) => Some(error),
                Err(error) => return Err(error),
            };
            self.open = None;
            // The stream of a job ends with it. That of a host that stops does so, too.
            if broken.is_none() && self.has_ended()? {
                return Ok(None);
            }
            let limit = self.client.patience;
            let patience = self.patience.get_or_insert_with(|| Patience::new(limit));
            if !patience.pause(Duration::ZERO) {
                let only_reads = true;
                let cause = "the stream of events ends again and again".to_owned();
                return Err(broken.unwrap_or(Error::NoAnswer { cause, only_reads }));
            }
        }
    }

    fn has_ended(&self) -> Result<bool, Error> {
        let Some(id) = self.query.job else {
            return Ok(false);
        };
        let job = || self.client.inner.job(&id.to_string());
        match self.client.patiently(true, job) {
            Ok(job) => Ok(has_ended(&job.view)),
            Err(Error::Refused { status: 404, .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }
}

impl Iterator for Events<'_> {
    type Item = Result<Event, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.step().transpose();
        self.ended = matches!(next, None | Some(Err(_)));
        next
    }
}
