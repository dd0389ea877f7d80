//! What the broker reports of requests, collected for each attempt until it ends. A cell has no part in it: the
//! broker reports a request before the cell gets the answer, so at the end of a run all of its answers are here.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io::IoSliceMut;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use host_core::cell::Context;
use host_core::egress::HttpErrorKind;
use host_core::port::requests::{EndedRequest, RequestWatch};
use host_core::requests::{
    FromBroker, REPORT_BYTES_MAX, RequestEnd, RequestReport, RequestTarget, Requests,
};
use host_core::time::Time;
use host_core::trace::Parent;
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvFlags, ReturnFlags, recvmsg};

/// How many messages are read at a time.
const MESSAGES_MAX: usize = 4_096;

/// How many requests of an attempt may have begun and not ended.
const OPEN_MAX: usize = 1_024;

/// The most ended attempts that one message to the broker names.
const OVER_MAX: usize = 1_024;

/// The records of the attempts that have not ended.
#[derive(Default)]
pub(super) struct Reports {
    /// The socket to the broker.
    control: Option<Arc<OwnedFd>>,
    records: HashMap<u64, Record>,
    records_made: u64,
    /// Records that have ended, by number. The broker has yet to hear of them.
    over: Vec<u64>,
    watch: Option<Arc<dyn RequestWatch>>,
}

struct Record {
    started_at: Time,
    job: String,
    attempt: u32,
    /// The span of the attempt.
    trace: Option<Parent>,
    requests: Requests,
    /// The requests that have not ended.
    open: HashMap<u64, Open>,
}

struct Open {
    /// Its place in the record.
    place: Option<usize>,
    at_ms: u64,
    handler: String,
    span: Option<u64>,
    asked: RequestTarget,
}

impl Record {
    fn end(&mut self, open: &Open, ended: RequestReport, watch: Option<&Arc<dyn RequestWatch>>) {
        self.requests.end(open.place, ended);
        if let Some(watch) = watch {
            watch.ended(&EndedRequest {
                handler: &open.handler,
                job: &self.job,
                attempt: self.attempt,
                span: self.trace.zip(open.span),
                began_at: self.started_at.plus_ms(open.at_ms),
                asked: &open.asked,
                ended,
            });
        }
    }
}

/// How a read of the socket ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadEnd {
    /// Nothing is left for now.
    Empty,
    /// There may be more.
    More,
    /// The broker has ended.
    Closed,
}

impl Reports {
    /// Tells `watch` of all requests that end from now on.
    pub(super) fn watch(&mut self, watch: Arc<dyn RequestWatch>) {
        self.watch = Some(watch);
    }

    /// Returns whether requests have spans.
    pub(super) fn have_spans(&self) -> bool {
        self.watch.as_ref().is_some_and(|watch| watch.has_spans())
    }

    /// Reads from a new broker from now on. What the last one has not answered has failed.
    pub(super) fn follow(&mut self, control: &Arc<OwnedFd>) {
        if let Some(last) = self.control.replace(Arc::clone(control)) {
            self.receive(&last);
            self.fail_open();
        }
    }

    /// Begins the record of an attempt that started at `started_at`. Returns its number.
    pub(super) fn begin(&mut self, started_at: Time, attempt: &Context) -> u64 {
        self.records_made += 1;
        let record = Record {
            started_at,
            job: attempt.job_id.clone(),
            attempt: attempt.attempt,
            trace: Parent::of(&attempt.trace),
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
        self.over.push(number);
        let ran_ms = now.since_ms(record.started_at);
        for open in std::mem::take(&mut record.open).into_values() {
            let took_us = ran_ms.saturating_sub(open.at_ms).saturating_mul(1_000);
            let ended = without_answer(RequestEnd::Cut, took_us);
            record.end(&open, ended, self.watch.as_ref());
        }
        record.requests
    }

    /// Takes the numbers of records that have ended, for the broker.
    pub(super) fn over(&mut self) -> Vec<u64> {
        let kept = self.over.len().saturating_sub(OVER_MAX);
        self.over.split_off(kept)
    }

    /// Reads what is at a socket.
    pub(super) fn read(&mut self, control: &Arc<OwnedFd>) -> ReadEnd {
        let read = self.receive(control);
        let is_current = |current| Arc::ptr_eq(current, control);
        if read == ReadEnd::Closed && self.control.as_ref().is_some_and(is_current) {
            self.control = None;
            self.fail_open();
        }
        read
    }

    fn receive(&mut self, control: &OwnedFd) -> ReadEnd {
        let mut buffer = [0; REPORT_BYTES_MAX];
        for _ in 0..MESSAGES_MAX {
            let mut room = [IoSliceMut::new(&mut buffer)];
            let mut no_fds = RecvAncillaryBuffer::default();
            let received = match recvmsg(control, &mut room, &mut no_fds, RecvFlags::DONTWAIT) {
                Ok(received) if received.bytes > 0 => received,
                Err(Errno::WOULDBLOCK) => return ReadEnd::Empty,
                Err(Errno::INTR) => continue,
                Ok(_) | Err(_) => return ReadEnd::Closed,
            };
            let is_whole = !received.flags.contains(ReturnFlags::TRUNC);
            match postcard::from_bytes(&buffer[..received.bytes.min(REPORT_BYTES_MAX)]) {
                Ok(message) if is_whole => self.take(message),
                _ => tracing::error!("the broker sent an unreadable report"),
            }
        }
        ReadEnd::More
    }

    fn take(&mut self, message: FromBroker) {
        let (FromBroker::Began { run, .. } | FromBroker::Ended { run, .. }) = &message else {
            return;
        };
        // Of an attempt that has ended, nothing is recorded any more.
        let Some(record) = self.records.get_mut(run) else {
            return;
        };
        match message {
            FromBroker::Began {
                request,
                at_ms,
                handler,
                span,
                asked,
                ..
            } => {
                if record.open.len() < OPEN_MAX {
                    let open = Open {
                        place: record.requests.begin(at_ms, &asked),
                        at_ms,
                        handler,
                        span,
                        asked,
                    };
                    record.open.insert(request, open);
                }
            }
            FromBroker::Ended { request, ended, .. } => {
                if let Some(open) = record.open.remove(&request) {
                    record.end(&open, ended, self.watch.as_ref());
                }
            }
            FromBroker::Alive => {}
        }
    }

    fn fail_open(&mut self) {
        let end = RequestEnd::Failed(HttpErrorKind::Unavailable);
        for record in self.records.values_mut() {
            for open in std::mem::take(&mut record.open).into_values() {
                record.end(&open, without_answer(end, 0), self.watch.as_ref());
            }
        }
    }
}

const fn without_answer(end: RequestEnd, took_us: u64) -> RequestReport {
    RequestReport {
        end,
        sent_bytes: 0,
        received_bytes: 0,
        took_us,
    }
}
