//! Statements that handlers pass to PostgreSQL, over connections of the broker's own. Values are text on the wire and JSON for
//! the handler: numbers of any length, times and all other types arrive digit by digit.

mod values;

use std::future::ready;
use std::io;

use bytes::BytesMut;
use fallible_iterator::FallibleIterator as _;
use host_core::egress::{HttpError, HttpErrorKind, SQL_ROWS_BYTES_MAX, SqlError, SqlRows};
use postgres_protocol::IsNull;
use postgres_protocol::message::backend::{ErrorFields, Message};
use postgres_protocol::message::frontend;

use self::values::Param;
use crate::tcp::Session;
use crate::tcp::postgres::{ServerError, Talk};

/// The largest message before the rows of an answer, in bytes: the description of 1,600 columns.
const HEAD_BYTES_MAX: usize = 256 << 10;

/// The text format, of parameters and of results.
const TEXT: i16 = 0;

/// What a handler gets when it uses a part of PostgreSQL that has no place here.
const NO_COPY: &str = "COPY cannot be used here; connect with [[handlers.NAME.tcp]] for it";

/// A connection for statements.
pub(crate) struct SqlSession {
    session: Session,
    /// Whether a transaction is open, and whether it can still be committed.
    status: u8,
}

/// What came back for one statement.
pub(crate) struct Answer<R> {
    pub(crate) rows: SqlRows,
    /// What the server says that it did.
    tag: String,
    /// The room that the rows take in memory, if there are any.
    pub(crate) room: Option<R>,
}

impl<R> Default for Answer<R> {
    fn default() -> Self {
        Self {
            rows: SqlRows::default(),
            tag: String::new(),
            room: None,
        }
    }
}

impl SqlSession {
    pub(crate) const fn new(session: Session) -> Self {
        let status = b'I';
        Self { session, status }
    }

    /// Runs a statement alone. `room` is waited for when there are rows.
    pub(crate) async fn query<R>(
        &mut self,
        sql: &str,
        params: &str,
        room: impl Future<Output = R>,
    ) -> Result<Answer<R>, SqlError> {
        let answer = self.run(sql, params, room).await?;
        if self.status != b'I' {
            let message = "the statement leaves a transaction open; begin one with transaction";
            return Err(invalid(message));
        }
        Ok(answer)
    }

    pub(crate) async fn begin(&mut self) -> Result<(), SqlError> {
        self.run("BEGIN", "[]", ready(())).await.map(|_| ())
    }

    /// Runs a statement of the transaction. `room` is waited for when there are rows.
    pub(crate) async fn query_in_transaction<R>(
        &mut self,
        sql: &str,
        params: &str,
        room: impl Future<Output = R>,
    ) -> Result<Answer<R>, SqlError> {
        if self.status == b'I' {
            return Err(invalid(
                "a statement has ended the transaction; use its commit or rollback",
            ));
        }
        self.run(sql, params, room).await
    }

    /// Ends the transaction.
    pub(crate) async fn end(&mut self, commits: bool) -> Result<(), SqlError> {
        let sql = if commits { "COMMIT" } else { "ROLLBACK" };
        let answer = self.run(sql, "[]", ready(())).await?;
        if commits && answer.tag != "COMMIT" {
            let message = "the transaction was rolled back, because a statement of it had failed";
            return Err(invalid(message));
        }
        Ok(())
    }

    /// Runs a statement. If the future is dropped, the connection is closed and the statement cancelled.
    async fn run<R>(
        &mut self,
        sql: &str,
        params: &str,
        room: impl Future<Output = R>,
    ) -> Result<Answer<R>, SqlError> {
        if sql.contains('\0') {
            return Err(invalid("the statement has a NUL character"));
        }
        let params = values::params(params).map_err(|message| invalid(&message))?;
        let Some((stream, traffic)) = self.session.postgres() else {
            return Err(invalid("the connection is closed"));
        };
        traffic.begin();
        let mut talk = Talk::new(stream, HEAD_BYTES_MAX);
        let run = async {
            let types = if params.iter().any(Param::needs_type) {
                talk.send(|to| {
                    frontend::parse("", sql, None, to)?;
                    frontend::describe(b'S', "", to)?;
                    frontend::sync(to);
                    Ok(())
                })
                .await?;
                match read_types(&mut talk).await? {
                    (Ok(types), _) => types,
                    (Err(error), status) => return Ok((Err(error), status)),
                }
            } else {
                Vec::new()
            };
            talk.send(|to| execute(sql, &params, &types, to)).await?;
            read_answer(&mut talk, room).await
        };
        match run.await {
            Ok((answer, status)) => {
                traffic.end(status);
                self.status = status;
                answer
            }
            Err(error) => Err(broken(&error)),
        }
    }
}

/// Writes the messages of a statement with its parameters.
fn execute(sql: &str, params: &[Param], types: &[u32], to: &mut BytesMut) -> io::Result<()> {
    frontend::parse("", sql, None, to)?;
    let places = params.iter().enumerate();
    let values = places.map(|(place, param)| param.text(types.get(place).copied()));
    let bound = frontend::bind(
        "",
        "",
        [TEXT],
        values,
        |value, to| match value {
            Some(text) => {
                to.extend_from_slice(text.as_bytes());
                Ok(IsNull::No)
            }
            None => Ok(IsNull::Yes),
        },
        [TEXT],
        to,
    );
    bound.map_err(|_| io::Error::other("the parameters are too large"))?;
    frontend::describe(b'P', "", to)?;
    frontend::execute("", 0, to)?;
    frontend::sync(to);
    Ok(())
}

type Outcome<T> = io::Result<(Result<T, SqlError>, u8)>;

/// Reads the types of a statement's parameters, and the status.
async fn read_types<S>(talk: &mut Talk<'_, S>) -> Outcome<Vec<u32>>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let (mut types, mut failed) = (Vec::new(), None);
    loop {
        match talk.next().await? {
            Message::ParameterDescription(body) => types = body.parameters().collect()?,
            Message::ErrorResponse(body) => failed = Some(refusal(body.fields())),
            Message::ReadyForQuery(body) => {
                return Ok((failed.map_or(Ok(types), Err), body.status()));
            }
            _ => {}
        }
    }
}

/// Reads what a statement answers, and the status.
async fn read_answer<S, R>(
    talk: &mut Talk<'_, S>,
    room: impl Future<Output = R>,
) -> Outcome<Answer<R>>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let (mut answer, mut room) = (Answer::default(), Some(room));
    let (mut types, mut rows, mut failed) = (Vec::new(), String::from("["), None);
    loop {
        match talk.next().await? {
            Message::RowDescription(body) => {
                if let Some(room) = room.take() {
                    answer.room = Some(room.await);
                    talk.set_message_bytes_max(SQL_ROWS_BYTES_MAX);
                }
                let mut fields = body.fields();
                while let Some(field) = fields.next()? {
                    answer.rows.columns.push(field.name().to_owned());
                    types.push(field.type_oid());
                }
            }
            Message::DataRow(body) => {
                if rows.len() > 1 {
                    rows.push(',');
                }
                values::row(&body, &types, &mut rows)?;
                if rows.len() > SQL_ROWS_BYTES_MAX {
                    let message = format!(
                        "the rows have more than {SQL_ROWS_BYTES_MAX} bytes; ask for fewer, for example with LIMIT"
                    );
                    return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
                }
            }
            Message::CommandComplete(body) => {
                let tag = body.tag()?;
                let count: Option<u64> = tag.rsplit(' ').next().and_then(|it| it.parse().ok());
                answer.rows.affected = u32::try_from(count.unwrap_or_default()).unwrap_or(u32::MAX);
                tag.clone_into(&mut answer.tag);
            }
            Message::CopyInResponse(_) => {
                talk.send(|to| {
                    frontend::copy_fail(NO_COPY, to)?;
                    frontend::sync(to);
                    Ok(())
                })
                .await?;
                failed = Some(invalid(NO_COPY));
            }
            Message::CopyOutResponse(_) => failed = Some(invalid(NO_COPY)),
            Message::ErrorResponse(body) if failed.is_none() => {
                failed = Some(refusal(body.fields()));
            }
            Message::ReadyForQuery(body) => {
                rows.push(']');
                answer.rows.rows = rows;
                return Ok((failed.map_or(Ok(answer), Err), body.status()));
            }
            _ => {}
        }
    }
}

fn refusal(fields: ErrorFields<'_>) -> SqlError {
    let ServerError {
        code,
        mut message,
        detail,
        hint,
    } = ServerError::read(fields);
    for more in [detail, hint].into_iter().flatten() {
        message = format!("{message}; {more}");
    }
    SqlError {
        kind: HttpErrorKind::StatementRefused,
        code: Some(code),
        message,
    }
}

fn invalid(message: &str) -> SqlError {
    HttpError::new(HttpErrorKind::InvalidRequest, message).into()
}

fn broken(error: &io::Error) -> SqlError {
    let kind = match error.kind() {
        io::ErrorKind::FileTooLarge => HttpErrorKind::TooLarge,
        _ => HttpErrorKind::ResponseIncomplete,
    };
    let message = match kind {
        HttpErrorKind::TooLarge => error.to_string(),
        _ => format!("the connection to the database broke: {error}"),
    };
    HttpError::new(kind, message).into()
}
