//! Serves one run: reads its requests from its socket and sends back the answers. When the cell closes the
//! socket, all its requests are cut.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream as StdStream;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use host_core::egress::{
    EGRESS_FRAME_BYTES_MAX, FromCell, HttpAnswer, HttpError, HttpErrorKind, HttpRequest,
    HttpResponse, Pass, ReportAs, SQL_STATEMENT_BYTES_MAX, SqlError, SqlRequest, SqlRows,
    SqlStatement, ToCell,
};
use host_core::requests::{Asked, RequestEnd};
use host_core::tcp_grant::GrantKind;
use host_core::trace::Parent;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::io::{AsyncWriteExt as _, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Mutex, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::codec::{FramedRead, FramedWrite, LengthDelimitedCodec};

use crate::allowance::{Allowance, RequestCharge};
use crate::broker::Broker;
use crate::broker::reports::Report;
use crate::client;
use crate::permit::Permit;
use crate::policy::Order;
use crate::sql::SqlSession;
use crate::tcp::{self, ByteCounts, GrantPlace};

/// The most open connections of one run.
const CONNECTIONS_MAX: usize = 64;

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
    let conversation = converse(broker, pass, permit, requests, answers);
    let _ = timeout(limit, conversation).await;
}

/// What all requests and connections of one run share.
struct Run {
    broker: Rc<Broker>,
    pass: Pass,
    permit: Arc<Permit>,
    allowance: Rc<Allowance>,
    answers: mpsc::Sender<Answer>,
    begun: Instant,
    /// How many requests and connections it has asked for.
    number: Cell<u64>,
    transactions: RefCell<HashMap<u32, Rc<Mutex<Transaction>>>>,
}

/// A message to the cell, and the socket that comes with it.
struct Answer {
    message: ToCell,
    socket: Option<OwnedFd>,
}

impl From<ToCell> for Answer {
    fn from(message: ToCell) -> Self {
        let socket = None;
        Self { message, socket }
    }
}

impl Run {
    /// Returns the id of the span of the next request, if it has one.
    fn next_span(&self) -> Option<u64> {
        let number = self.number.replace(self.number.get() + 1);
        self.pass.report_as.and_then(|it| it.span(number))
    }

    async fn report(&self, span: Option<u64>, asked: Asked) -> Report<'_> {
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

    async fn answer(&self, answer: impl Into<Answer>) {
        // If the cell is gone, no one waits for it.
        // The run may have ended.
        let _ = self.answers.send(answer.into()).await;
    }

    async fn serve_request(&self, request: HttpRequest) {
        let (call, mut asked) = (request.call, Asked::default());
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

    async fn serve_connection(&self, call: u32, place: usize) {
        let Some(grant) = self.pass.tcp.get(place) else {
            let message = "the manifest has no such grant";
            let result = Err(HttpError::new(HttpErrorKind::NotGranted, message));
            return self.answer(ToCell::Connected { call, result }).await;
        };
        let asked = Asked {
            method: Some("TCP".to_owned()),
            origin: Some(format!("tcp://{}", grant.to)),
            path_pattern: None,
        };
        let mut report = self.report(self.next_span(), asked).await;
        let opened = self
            .broker
            .connect(
                &self.pass,
                GrantPlace {
                    kind: GrantKind::Tcp,
                    index: place,
                },
                grant,
                &self.permit,
            )
            .await
            .and_then(|session| Ok((session, guest_socket()?)));
        let (mut session, ours, theirs) = match opened {
            Ok((session, (ours, theirs))) => (session, ours, theirs),
            Err(error) => {
                let end = RequestEnd::Failed(error.kind);
                report.end_connection(end, 0).await;
                let result = Err(error);
                return self.answer(ToCell::Connected { call, result }).await;
            }
        };
        self.answer(Answer {
            message: ToCell::Connected {
                call,
                result: Ok(()),
            },
            socket: Some(theirs),
        })
        .await;
        let carried = ByteCounts::default();
        let take = |bytes| self.allowance.take_bytes(GrantKind::Tcp, place, bytes);
        let ended = tcp::relay(&mut session, grant, ours, &take, &carried).await;
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

/// A transaction of a run. When this is dropped, it is rolled back.
struct Transaction {
    session: SqlSession,
    /// The place of its grant.
    grant: usize,
}

impl Run {
    async fn serve_sql(&self, asked: SqlRequest) -> Result<SqlRows, SqlError> {
        match asked {
            SqlRequest::Query {
                database,
                statement,
            } => {
                let (mut session, place) = self.sign_in(&database).await?;
                let SqlStatement { text, params } = self.charge(place, statement)?;
                let rows = session.query(&text, &params).await?;
                self.carry(place, rows)
            }
            SqlRequest::Begin {
                database,
                transaction,
            } => {
                if self.transactions.borrow().len() >= AT_ONCE_MAX {
                    let message =
                        format!("an attempt may have {AT_ONCE_MAX} transactions open at a time");
                    return Err(HttpError::new(HttpErrorKind::LimitReached, message).into());
                }
                let (mut session, grant) = self.sign_in(&database).await?;
                session.begin().await?;
                let opened = Rc::new(Mutex::new(Transaction { session, grant }));
                self.transactions.borrow_mut().insert(transaction, opened);
                Ok(SqlRows::default())
            }
            SqlRequest::Step {
                transaction,
                statement,
            } => {
                let known = self.transactions.borrow().get(&transaction).cloned();
                let shared = known.ok_or_else(over)?;
                let mut opened = shared.lock().await;
                let SqlStatement { text, params } = self.charge(opened.grant, statement)?;
                let rows = opened.session.query_in_transaction(&text, &params).await?;
                self.carry(opened.grant, rows)
            }
            SqlRequest::End {
                transaction,
                commits,
            } => {
                let known = self.transactions.borrow_mut().remove(&transaction);
                let shared = known.ok_or_else(over)?;
                let ended = shared.lock().await.session.end(commits).await;
                ended.map(|()| SqlRows::default())
            }
        }
    }

    /// Returns a connection to a database of the manifest, and the place of its grant.
    async fn sign_in(&self, database: &str) -> Result<(SqlSession, usize), SqlError> {
        let mut grants = self.pass.sql.iter().enumerate();
        let known = grants.find(|(_, grant)| grant.name.as_deref() == Some(database));
        let Some((place, grant)) = known else {
            let message = format!(
                "the manifest grants this handler no database {database}; add [[handlers.NAME.sql]] with name = {database:?} to it"
            );
            return Err(HttpError::new(HttpErrorKind::NotGranted, message).into());
        };
        let asked = Asked {
            method: Some("SQL".to_owned()),
            origin: Some(format!("tcp://{}", grant.to)),
            path_pattern: None,
        };
        let report = self.report(self.next_span(), asked).await;
        let opened = self
            .broker
            .connect(
                &self.pass,
                GrantPlace {
                    kind: GrantKind::Sql,
                    index: place,
                },
                grant,
                &self.permit,
            )
            .await;
        let end = match &opened {
            Ok(_) => RequestEnd::Closed,
            Err(error) => RequestEnd::Failed(error.kind),
        };
        report.end_connection(end, 0).await;
        Ok((SqlSession::new(opened?), place))
    }

    /// Takes what a statement sends from what the attempt may carry.
    fn charge(&self, place: usize, statement: SqlStatement) -> Result<SqlStatement, SqlError> {
        let bytes = statement.text.len() + statement.params.len();
        if bytes > SQL_STATEMENT_BYTES_MAX {
            let message = format!(
                "the statement and its parameters have {bytes} bytes, more than {SQL_STATEMENT_BYTES_MAX}"
            );
            return Err(HttpError::new(HttpErrorKind::RequestTooLarge, message).into());
        }
        self.take(place, bytes).map(|()| statement)
    }

    fn carry(&self, place: usize, rows: SqlRows) -> Result<SqlRows, SqlError> {
        self.take(place, rows.rows.len()).map(|()| rows)
    }

    fn take(&self, place: usize, bytes: usize) -> Result<(), SqlError> {
        if self.allowance.take_bytes(GrantKind::Sql, place, bytes) {
            return Ok(());
        }
        let message = "the attempt has used up the bytes that its manifest grants for the database (max_total_mib)";
        Err(HttpError::new(HttpErrorKind::LimitReached, message).into())
    }
}

fn over() -> SqlError {
    HttpError::new(HttpErrorKind::InvalidRequest, "the transaction is over").into()
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

async fn converse(
    broker: Rc<Broker>,
    pass: Pass,
    permit: Arc<Permit>,
    mut stream: FramedRead<OwnedReadHalf, LengthDelimitedCodec>,
    mut sink: FramedWrite<OwnedWriteHalf, LengthDelimitedCodec>,
) {
    let (answers, mut answered) = mpsc::channel::<Answer>(AT_ONCE_MAX);
    let at_once = Arc::new(Semaphore::new(AT_ONCE_MAX));
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let run = Rc::new(Run {
        allowance: broker.attempts.get(&pass),
        broker,
        pass,
        permit,
        answers,
        begun: Instant::now(),
        number: Cell::new(0),
        transactions: RefCell::default(),
    });
    let mut tasks = JoinSet::new();
    let writing = async {
        while let Some(Answer { message, socket }) = answered.recv().await {
            let Ok(frame) = postcard::to_stdvec(&message) else {
                return;
            };
            let sent = match socket {
                None => sink.send(Bytes::from(frame)).await,
                Some(socket) => send_with(sink.get_mut(), &frame, socket).await,
            };
            if sent.is_err() {
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
            let Ok(asked) = postcard::from_bytes::<FromCell>(&frame) else {
                return;
            };
            while tasks.try_join_next().is_some() {}
            let run = Rc::clone(&run);
            match asked {
                FromCell::Http(request) => {
                    tasks.spawn_local(async move {
                        run.serve_request(request).await;
                        drop(place);
                    });
                }
                FromCell::Sql { call, asked } => {
                    tasks.spawn_local(async move {
                        let result = run.serve_sql(asked).await;
                        run.answer(ToCell::Sql { call, result }).await;
                        drop(place);
                    });
                }
                FromCell::Connect { call, grant } => {
                    let Ok(connection) = Arc::clone(&connections).try_acquire_owned() else {
                        let message = format!(
                            "an attempt may have {CONNECTIONS_MAX} connections open at a time"
                        );
                        let result = Err(HttpError::new(HttpErrorKind::LimitReached, message));
                        run.answer(ToCell::Connected { call, result }).await;
                        continue;
                    };
                    tasks.spawn_local(async move {
                        run.serve_connection(call, grant as usize).await;
                        drop(connection);
                    });
                }
            }
        }
    };
    tokio::select! {
        () = writing => {}
        () = reading => {}
    }
}

/// Sends a frame together with a socket. Not cancel safe: a part of the frame may have been sent.
async fn send_with(stream: &mut OwnedWriteHalf, frame: &[u8], socket: OwnedFd) -> io::Result<()> {
    let length = u32::try_from(frame.len()).map_err(io::Error::other)?;
    let bytes = [&length.to_be_bytes(), frame].concat();
    let sent = stream
        .as_ref()
        .async_io(Interest::WRITABLE, || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            let fds = [socket.as_fd()];
            ancillary.push(SendAncillaryMessage::ScmRights(&fds));
            let parts = [IoSlice::new(&bytes)];
            let sent = sendmsg(stream.as_ref(), &parts, &mut ancillary, SendFlags::NOSIGNAL);
            sent.map_err(io::Error::from)
        })
        .await?;
    stream.write_all(&bytes[sent..]).await
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
