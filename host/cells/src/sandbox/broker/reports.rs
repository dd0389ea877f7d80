//! What the broker reports of requests, collected for each attempt until it ends. A cell has no part in it: the
//! broker reports a request before the cell gets the answer, so at the end of a run all of its answers are here.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io::IoSliceMut;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use host_core::egress::HttpErrorKind;
use host_core::requests::{Ended, FromBroker, REPORT_BYTES_MAX, RequestEnd, Requests};
use host_core::time::Time;
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvFlags, ReturnFlags, recvmsg};

/// How many messages are read at once.
const MESSAGES_MAX: usize = 4_096;

/// How many requests of an attempt may have begun and not ended.
const OPEN_MAX: usize = 1_024;

/// The records of the attempts that have not ended.
#[derive(Default)]
pub(super) struct Reports {
    /// The socket to the broker.
    control: Option<Arc<OwnedFd>>,
    records: HashMap<u64, Record>,
    records_made: u64,
}

struct Record {
    started_at: Time,
    requests: Requests,
    /// The requests that have not ended: their places in `requests`, and when they began.
    open: HashMap<u64, (Option<usize>, u64)>,
}

/// How a read of the socket ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// Nothing is left for now.
    Empty,
    /// There may be more.
    More,
    /// The broker has ended.
    Closed,
}

impl Reports {
    /// Reads from a new broker from now on. What the last one has not answered has failed.
    pub(super) fn follow(&mut self, control: &Arc<OwnedFd>) {
        if let Some(last) = self.control.replace(Arc::clone(control)) {
            self.receive(&last);
            self.fail_open();
        }
    }

    /// Begins the record of an attempt that started at `started_at`. Returns its number.
    pub(super) fn begin(&mut self, started_at: Time) -> u64 {
        self.records_made += 1;
        let record = Record {
            started_at,
            requests: Requests::default(),
            open: HashMap::new(),
        };
        self.records.insert(self.records_made, record);
        self.records_made
    }

    /// Ends a record. Requests that have not ended are cut.
    pub(super) fn end(&mut self, now: Time, number: u64) -> Requests {
        if let Some(control) = self.control.clone() {
            self.read(&control);
        }
        let Some(mut record) = self.records.remove(&number) else {
            return Requests::default();
        };
        let ran_ms = now.since_ms(record.started_at);
        for (place, at_ms) in record.open.into_values() {
            let took_us = ran_ms.saturating_sub(at_ms).saturating_mul(1_000);
            let ended = without_answer(RequestEnd::Cut, took_us);
            record.requests.end(place, ended);
        }
        record.requests
    }

    /// Reads what is at a socket.
    pub(super) fn read(&mut self, control: &Arc<OwnedFd>) -> Read {
        let read = self.receive(control);
        let is_current = |current| Arc::ptr_eq(current, control);
        if read == Read::Closed && self.control.as_ref().is_some_and(is_current) {
            self.control = None;
            self.fail_open();
        }
        read
    }

    fn receive(&mut self, control: &OwnedFd) -> Read {
        let mut buffer = [0; REPORT_BYTES_MAX];
        for _ in 0..MESSAGES_MAX {
            let mut room = [IoSliceMut::new(&mut buffer)];
            let mut no_fds = RecvAncillaryBuffer::default();
            let received = match recvmsg(control, &mut room, &mut no_fds, RecvFlags::DONTWAIT) {
                Ok(received) if received.bytes > 0 => received,
                Err(Errno::WOULDBLOCK) => return Read::Empty,
                Err(Errno::INTR) => continue,
                Ok(_) | Err(_) => return Read::Closed,
            };
            let is_whole = !received.flags.contains(ReturnFlags::TRUNC);
            match postcard::from_bytes(&buffer[..received.bytes.min(REPORT_BYTES_MAX)]) {
                Ok(message) if is_whole => self.take(message),
                _ => tracing::error!("the broker reports what cannot be read"),
            }
        }
        Read::More
    }

    fn take(&mut self, message: FromBroker) {
        let (FromBroker::Began { run, .. } | FromBroker::Ended { run, .. }) = &message;
        // Of an attempt that has ended, nothing is recorded any more.
        let Some(record) = self.records.get_mut(run) else {
            return;
        };
        match message {
            FromBroker::Began {
                request,
                at_ms,
                asked,
                ..
            } => {
                if record.open.len() < OPEN_MAX {
                    let place = record.requests.begin(at_ms, asked);
                    record.open.insert(request, (place, at_ms));
                }
            }
            FromBroker::Ended { request, ended, .. } => {
                if let Some((place, _)) = record.open.remove(&request) {
                    record.requests.end(place, ended);
                }
            }
        }
    }

    fn fail_open(&mut self) {
        let end = RequestEnd::Failed(HttpErrorKind::Unavailable);
        for record in self.records.values_mut() {
            for (place, _) in record.open.drain().map(|(_, open)| open) {
                record.requests.end(place, without_answer(end, 0));
            }
        }
    }
}

const fn without_answer(end: RequestEnd, took_us: u64) -> Ended {
    Ended {
        end,
        sent_bytes: 0,
        received_bytes: 0,
        took_us,
    }
}
