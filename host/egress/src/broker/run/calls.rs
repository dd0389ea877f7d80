//! The requests and connections of one run.

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use host_core::egress::{
    HttpAnswer, HttpError, HttpErrorKind, HttpRequest, HttpResponse, Pass, ReportAs, ToCell,
};
use host_core::requests::{RequestEnd, RequestTarget};
use host_core::tcp_grant::GrantKind;
use host_core::time::Time;
use host_core::trace::Parent;
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::transactions::Transactions;
use crate::allowance::{Allowance, RequestCharge};
use crate::broker::Broker;
use crate::broker::reports::Report;
use crate::client::{self, HttpClient};
use crate::oauth::{Token, TokenRequest};
use crate::permit::Permit;
use crate::policy::Order;
use crate::tcp::{self, ByteCounts, GrantPlace, Session};

/// What all requests and connections of one run share.
pub(super) struct Run {
    pub(super) broker: Rc<Broker>,
    pub(super) pass: Pass,
    permit: Arc<Permit>,
    pub(super) allowance: Rc<Allowance>,
    answers: mpsc::Sender<Answer>,
    begun: Instant,
    /// How many requests and connections it has asked for.
    number: Cell<u64>,
    pub(super) transactions: Transactions,
}

/// A message to the cell, and the socket that comes with it.
pub(super) struct Answer {
    pub(super) message: ToCell,
    pub(super) socket: Option<OwnedFd>,
}

impl From<ToCell> for Answer {
    fn from(message: ToCell) -> Self {
        let socket = None;
        Self { message, socket }
    }
}

impl Run {
    pub(super) fn new(
        broker: Rc<Broker>,
        pass: Pass,
        permit: Arc<Permit>,
        answers: mpsc::Sender<Answer>,
    ) -> Self {
        Self {
            allowance: broker.attempts.get(&pass),
            broker,
            pass,
            permit,
            answers,
            begun: Instant::now(),
            number: Cell::new(0),
            transactions: Transactions::default(),
        }
    }

    /// Returns the id of the span of the next request, if it has one.
    fn next_span(&self) -> Option<u64> {
        let number = self.number.replace(self.number.get() + 1);
        self.pass.report_as.and_then(|it| it.span(number))
    }

    async fn report(&self, span: Option<u64>, asked: RequestTarget) -> Report<'_> {
        let elapsed_ms = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let report_as = self.pass.report_as.map(|it| ReportAs {
            began_ms: it.began_ms.saturating_add(elapsed_ms),
            ..it
        });
        let handler = self.pass.handler.clone();
        self.broker
            .reports
            .begin(report_as, handler, span, asked)
            .await
    }

    pub(super) async fn answer(&self, answer: impl Into<Answer>) {
        // If the cell is gone, no one waits for it.
        // The run may have ended.
        let _ = self.answers.send(answer.into()).await;
    }

    pub(super) async fn serve_request(&self, request: HttpRequest) {
        let (call, mut asked) = (request.call, RequestTarget::default());
        let span = self.next_span();
        let trace = self.pass.trace.map(|parent| Parent {
            span_id: span.unwrap_or(parent.span_id),
            ..parent
        });
        let decided = self
            .broker
            .decide(&self.pass, request, trace, &mut asked)
            .and_then(|order| {
                let taken = self.allowance.take(&order)?;
                Ok((order, taken))
            });
        let mut report = self.report(span, asked).await;
        let result = match decided {
            Ok((order, taken)) => {
                report.sent(order.body.len());
                exchange(&self.broker, &self.pass, &self.permit, order, &taken).await
            }
            Err(error) => Err(error),
        };
        // The host knows it before the cell does.
        report.end(&result).await;
        self.answer(ToCell::Http(HttpAnswer { call, result })).await;
    }

    /// Begins to report a connection by a grant, opens it, and reports why it could not.
    pub(super) async fn connect(
        &self,
        place: GrantPlace,
        method: &str,
    ) -> Result<(Session, Report<'_>), HttpError> {
        let grant = place.grant(&self.pass)?;
        let asked = RequestTarget {
            method: Some(method.to_owned()),
            origin: Some(format!("tcp://{}", grant.to)),
            path_pattern: None,
        };
        let report = self.report(self.next_span(), asked).await;
        match self.broker.connect(&self.pass, place, &self.permit).await {
            Ok(session) => Ok((session, report)),
            Err(error) => {
                let end = RequestEnd::Failed(error.kind);
                report.end_connection(end, 0).await;
                Err(error)
            }
        }
    }

    pub(super) async fn serve_connection(&self, call: u32, index: usize) {
        let kind = GrantKind::Tcp;
        let place = GrantPlace { kind, index };
        let opened = self
            .connect(place, "TCP")
            .await
            .and_then(|opened| Ok((opened, guest_socket()?)));
        let ((session, report), (ours, theirs)) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                let result = Err(error);
                return self.answer(ToCell::Connected { call, result }).await;
            }
        };
        let result = Ok(());
        self.answer(Answer {
            message: ToCell::Connected { call, result },
            socket: Some(theirs),
        })
        .await;
        self.carry(place, session, report, ours).await;
    }

    /// Passes bytes on between a guest and its server until one of them ends, and reports it.
    async fn carry(
        &self,
        place: GrantPlace,
        mut session: Session,
        mut report: Report<'_>,
        guest: UnixStream,
    ) {
        let carried = ByteCounts::default();
        let take = |bytes| self.allowance.take_bytes(place, bytes);
        let ended = tcp::relay(&mut session, guest, &take, &carried).await;
        drop(session);
        report.sent(usize::try_from(carried.sent.get()).unwrap_or(usize::MAX));
        let end = match &ended {
            Ok(()) => RequestEnd::Closed,
            Err(error) => RequestEnd::Failed(error.kind),
        };
        report.end_connection(end, carried.received.get()).await;
        if let Err(error) = ended {
            self.answer(ToCell::Broken(error.message)).await;
        }
    }
}

/// Makes the two ends of a connection between a guest and this process.
fn guest_socket() -> Result<(UnixStream, OwnedFd), HttpError> {
    let pair = StdStream::pair().and_then(|(ours, theirs)| {
        ours.set_nonblocking(true)?;
        Ok((UnixStream::from_std(ours)?, theirs.into()))
    });
    pair.map_err(|error| {
        let message = format!("the host cannot open connections now: {error}");
        HttpError::new(HttpErrorKind::Unavailable, message)
    })
}

/// Returns the time of the wall clock.
#[expect(
    clippy::disallowed_methods,
    reason = "servers compare the time of a signature with the wall clock, which host time is not"
)]
fn wall_time() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let ms = since.map_or(0, |it| it.as_millis());
    Time(i64::try_from(ms).unwrap_or(i64::MAX))
}

async fn exchange(
    broker: &Broker,
    pass: &Pass,
    permit: &Arc<Permit>,
    mut order: Order,
    taken: &RequestCharge,
) -> Result<HttpResponse, HttpError> {
    let bytes = order.body.len() + taken.response_bytes_max();
    let _guard = broker.enter(pass, bytes).await;
    if let Some(token) = order.token.take() {
        let sending = TokenExchange {
            broker,
            pass,
            permit,
            order,
            taken,
            token,
        };
        return sending.run().await;
    }
    broker.tokens.reveal(pass, &mut order.secrets);
    // Not before its turn: a signature is valid for minutes.
    order.sign(wall_time())?;
    client::send(&broker.client(pass), order, taken, permit).await
}

/// A request that carries an access token.
struct TokenExchange<'a> {
    broker: &'a Broker,
    pass: &'a Pass,
    permit: &'a Arc<Permit>,
    order: Order,
    taken: &'a RequestCharge,
    token: TokenRequest,
}

impl TokenExchange<'_> {
    /// Sends the request, and once more with another token if the server refuses the first. Getting tokens takes of the
    /// request's time.
    async fn run(mut self) -> Result<HttpResponse, HttpError> {
        let (tokens, component) = (&self.broker.tokens, &self.pass.component);
        let (oauth, limit) = (self.token.oauth.clone(), self.order.timeout);
        let deadline = Instant::now() + limit;
        let late = |_| {
            let (url, ms) = (&oauth.token_url, limit.as_millis());
            let message = format!("{url} gave no access token within {ms} ms");
            HttpError::new(HttpErrorKind::TimedOut, message)
        };
        let getting = tokens.get(component, &oauth, || self.fetch());
        let first = timeout_at(deadline, getting).await.map_err(late)??;
        self.order.timeout = deadline.saturating_duration_since(Instant::now());
        let response = self.send(&first).await?;
        if response.status != 401 {
            return Ok(response);
        }
        let replacing = tokens.replace(component, &oauth, &first, || self.fetch());
        let second = timeout_at(deadline, replacing).await.map_err(late)??;
        self.order.timeout = deadline.saturating_duration_since(Instant::now());
        match second {
            Some(second) => self.send(&second).await,
            None => Ok(response),
        }
    }

    async fn fetch(&self) -> Result<Token, HttpError> {
        let asked = self.order.token_order(&self.token, wall_time())?;
        let charge = RequestCharge::uncounted(asked.response_bytes_max);
        let answer = client::send(&self.client(), asked, &charge, self.permit).await;
        self.token.read(answer, Instant::now())
    }

    async fn send(&self, token: &str) -> Result<HttpResponse, HttpError> {
        let mut order = self.order.with_token(token)?;
        self.broker.tokens.reveal(self.pass, &mut order.secrets);
        client::send(&self.client(), order, self.taken, self.permit).await
    }

    fn client(&self) -> HttpClient {
        self.broker.client(self.pass)
    }
}
