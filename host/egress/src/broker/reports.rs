//! Tells the host of requests: when each begins, and how it ended before its cell gets the answer. So at the end
//! of a run the host has what is recorded of it.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;

use host_core::egress::{HttpError, HttpResponse, ReportAs};
use host_core::requests::{FromBroker, RequestEnd, RequestReport, RequestTarget};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

/// The socket to the host.
pub(super) struct Reports {
    control: AsyncFd<OwnedFd>,
    /// How many requests have been reported.
    requests: Cell<u64>,
}

impl Reports {
    pub(super) fn new(control: OwnedFd) -> io::Result<Self> {
        ioctl_fionbio(&control, true)?;
        // SAFETY: the descriptor is owned, and stays open and the same until it is dropped.
        let control = unsafe { AsyncFd::register(control) }?;
        let requests = Cell::new(0);
        Ok(Self { control, requests })
    }

    pub(super) const fn control(&self) -> &AsyncFd<OwnedFd> {
        &self.control
    }

    /// Reports that a handler begins a request, with the id of its span; nothing if it is not to be reported. Waits
    /// while the host does not read.
    pub(super) async fn begin(
        &self,
        report_as: Option<ReportAs>,
        handler: String,
        span: Option<u64>,
        asked: RequestTarget,
    ) -> Report<'_> {
        let mut report = Report {
            reports: self,
            number: None,
            began: Instant::now(),
            sent_bytes: 0,
        };
        if let Some(ReportAs { run, began_ms, .. }) = report_as {
            let request = self.requests.get();
            self.requests.set(request + 1);
            self.send(&FromBroker::Began {
                run,
                request,
                at_ms: began_ms,
                handler,
                span,
                asked,
            })
            .await;
            report.number = Some((run, request));
        }
        report
    }

    /// Gives a sign of life. If there is no room for it, what the host has yet to read is one.
    pub(super) fn alive(&self) {
        if let Ok(bytes) = postcard::to_stdvec(&FromBroker::Alive) {
            // A full socket loses a report, and only that.
            let _ = send(self.control.get_ref(), &bytes);
        }
    }

    async fn send(&self, message: &FromBroker) {
        let Ok(bytes) = postcard::to_stdvec(message) else {
            return;
        };
        while let Ok(mut writable) = self.control.writable().await {
            // An error means that the host is gone; what reads from it notices.
            if writable.try_io(|it| send(it.get_ref(), &bytes)).is_ok() {
                return;
            }
        }
    }
}

/// A request that has begun. If it is dropped, it was cut.
pub(super) struct Report<'a> {
    reports: &'a Reports,
    /// The run and the request, until the end is reported.
    number: Option<(u64, u64)>,
    began: Instant,
    sent_bytes: u64,
}

impl Report<'_> {
    /// Notes that a body of this size is sent.
    pub(super) const fn sent(&mut self, bytes: usize) {
        self.sent_bytes = bytes as u64;
    }

    /// Reports how it ended. Waits while the host does not read.
    pub(super) async fn end(mut self, result: &Result<HttpResponse, HttpError>) {
        let (end, received_bytes) = match result {
            Ok(response) => (
                RequestEnd::Answered(response.status),
                response.body.len() as u64,
            ),
            Err(error) => (RequestEnd::Failed(error.kind), 0),
        };
        if let Some(message) = self.message(end, received_bytes) {
            self.reports.send(&message).await;
        }
    }

    /// Reports how a connection ended that carried so many bytes. Waits while the host does not read.
    pub(super) async fn end_connection(mut self, end: RequestEnd, received_bytes: u64) {
        if let Some(message) = self.message(end, received_bytes) {
            self.reports.send(&message).await;
        }
    }

    fn message(&mut self, end: RequestEnd, received_bytes: u64) -> Option<FromBroker> {
        let (run, request) = self.number.take()?;
        let took_us = self.began.elapsed().as_micros();
        let ended = RequestReport {
            end,
            sent_bytes: self.sent_bytes,
            received_bytes,
            took_us: u64::try_from(took_us).unwrap_or(u64::MAX),
        };
        Some(FromBroker::Ended {
            run,
            request,
            ended,
        })
    }
}

impl Drop for Report<'_> {
    fn drop(&mut self) {
        let cut = self.message(RequestEnd::Cut, 0);
        if let Some(Ok(bytes)) = cut.map(|message| postcard::to_stdvec(&message)) {
            // Without it the host takes the end of the run for that of the request.
            // A full socket loses a report, and only that.
            let _ = send(self.reports.control.get_ref(), &bytes);
        }
    }
}

fn send(control: &OwnedFd, bytes: &[u8]) -> io::Result<()> {
    let mut no_fds = SendAncillaryBuffer::default();
    match sendmsg(
        control,
        &[IoSlice::new(bytes)],
        &mut no_fds,
        SendFlags::NOSIGNAL,
    ) {
        Ok(_) => Ok(()),
        Err(Errno::INTR) => Err(io::ErrorKind::WouldBlock.into()),
        Err(error) => Err(error.into()),
    }
}
