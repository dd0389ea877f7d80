//! Serves one run: reads its requests from its socket and sends back the answers. When the cell closes the
//! socket, all its requests are cut.

use std::os::unix::net::UnixStream as StdStream;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use host_core::egress::{
    EGRESS_FRAME_BYTES_MAX, HttpAnswer, HttpError, HttpRequest, HttpResponse, Pass, ReportAs,
};
use host_core::requests::Asked;
use host_core::trace::Parent;
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::codec::{FramedRead, FramedWrite, LengthDelimitedCodec};

use crate::allowance::RequestCharge;
use crate::broker::Broker;
use crate::client;
use crate::permit::Permit;
use crate::policy::Order;

/// The most concurrent requests of one run.
const AT_ONCE_MAX: usize = 16;

/// Serves a run until its cell closes the socket, breaks the protocol, or the run's time is over.
pub(crate) async fn serve(broker: Rc<Broker>, pass: Pass, socket: StdStream) {
    let limit = Duration::from_millis(pass.time_left_ms);
    let opened = socket.try_clone().and_then(|watched| {
        socket.set_nonblocking(true)?;
        Ok((watched, UnixStream::from_std(socket)?))
    });
    let Ok((watched, stream)) = opened else {
        return;
    };
    let permit = match broker.permit(&pass, watched) {
        Ok(permit) => Arc::new(permit),
        Err(cause) => {
            return host_confine::report(format_args!(
                "cannot serve a run of {}: {cause}",
                pass.handler
            ));
        }
    };
    let mut codec = LengthDelimitedCodec::new();
    codec.set_max_frame_length(EGRESS_FRAME_BYTES_MAX);
    let (read, write) = stream.into_split();
    let requests = FramedRead::new(read, codec.clone());
    let answers = FramedWrite::new(write, codec);
    // At the limit, dropping the conversation cuts its requests.
    let conversation = converse(broker, Rc::new(pass), permit, requests, answers);
    let _ = timeout(limit, conversation).await;
}

async fn converse(
    broker: Rc<Broker>,
    pass: Rc<Pass>,
    permit: Arc<Permit>,
    mut stream: FramedRead<OwnedReadHalf, LengthDelimitedCodec>,
    mut sink: FramedWrite<OwnedWriteHalf, LengthDelimitedCodec>,
) {
    let begun = Instant::now();
    let (answers, mut answered) = mpsc::channel::<HttpAnswer>(AT_ONCE_MAX);
    let at_once = Arc::new(Semaphore::new(AT_ONCE_MAX));
    let allowance = broker.attempts.get(&pass);
    let (mut requests, mut number) = (JoinSet::new(), 0);
    let writing = async {
        while let Some(answer) = answered.recv().await {
            let Ok(frame) = postcard::to_stdvec(&answer) else {
                return;
            };
            if sink.send(Bytes::from(frame)).await.is_err() {
                return;
            }
        }
    };
    let reading = async {
        loop {
            // Until one has ended, the cell's next request waits in its socket.
            let place = tokio::select! {
                biased;
                // What it has sent before it went is not wanted any more.
                _gone = stream.get_ref().ready(Interest::PRIORITY) => return,
                place = Arc::clone(&at_once).acquire_owned() => place,
            };
            let Ok(place) = place else { return };
            let Some(Ok(frame)) = stream.next().await else {
                return;
            };
            let Ok(request) = postcard::from_bytes::<HttpRequest>(&frame) else {
                return;
            };
            while requests.try_join_next().is_some() {}
            let call = request.call;
            let mut asked = Asked::default();
            let span = pass.report_as.and_then(|it| it.span(number));
            number += 1;
            let trace = pass.trace.map(|parent| Parent {
                span_id: span.unwrap_or(parent.span_id),
                ..parent
            });
            let decided = broker
                .decide(&pass, request, trace, &mut asked)
                .and_then(|order| {
                    let taken = allowance.take(&order)?;
                    Ok((order, taken))
                });
            let elapsed_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            let report_as = pass.report_as.map(|it| ReportAs {
                began_ms: it.began_ms.saturating_add(elapsed_ms),
                ..it
            });
            let (broker, pass, answers) = (Rc::clone(&broker), Rc::clone(&pass), answers.clone());
            let permit = Arc::clone(&permit);
            requests.spawn_local(async move {
                let handler = pass.handler.clone();
                let reports = &broker.reports;
                let mut report = reports.begin(report_as, handler, span, asked).await;
                let result = match decided {
                    Ok((order, taken)) => {
                        report.sent(order.body.len());
                        exchange(&broker, &pass, &permit, order, &taken).await
                    }
                    Err(error) => Err(error),
                };
                // The host knows it before the cell does.
                report.end(&result).await;
                // If the cell is gone, no one waits for it.
                // The run may have ended.
                let _ = answers.send(HttpAnswer { call, result }).await;
                drop(place);
            });
        }
    };
    tokio::select! {
        () = writing => {}
        () = reading => {}
    }
}

async fn exchange(
    broker: &Broker,
    pass: &Pass,
    permit: &Arc<Permit>,
    order: Order,
    taken: &RequestCharge,
) -> Result<HttpResponse, HttpError> {
    let bytes = order.body.len() + taken.response_bytes_max();
    let _guard = broker.enter(pass, bytes).await;
    let revision = (pass.component.clone(), pass.revision);
    let client = broker.client(&revision);
    client::send(&client, order, taken, permit).await
}
