//! The statements of one run for databases.

use std::rc::Rc;

use host_core::egress::{
    HttpError, HttpErrorKind, SQL_ROWS_BYTES_MAX, SQL_STATEMENT_BYTES_MAX, SqlError, SqlRequest,
    SqlStatement, ToCell,
};
use host_core::requests::RequestEnd;
use host_core::tcp_grant::GrantKind;
use tokio::sync::Mutex;

use super::calls::Run;
use super::transactions::{TRANSACTIONS_MAX, Transaction};
use crate::broker::Room;
use crate::sql::{Answer, SqlSession};
use crate::tcp::GrantPlace;

impl Run {
    pub(super) async fn serve_sql(&self, call: u32, asked: SqlRequest) {
        // The rows take their room until the cell has them.
        let (result, _room) = match self.ask(asked).await {
            Ok(Answer { rows, room, .. }) => (Ok(rows), room),
            Err(error) => (Err(error), None),
        };
        self.answer(ToCell::Sql { call, result }).await;
    }

    async fn ask(&self, asked: SqlRequest) -> Result<Answer<Room<'_>>, SqlError> {
        match asked {
            SqlRequest::Query {
                database,
                statement,
            } => {
                let (mut session, place) = self.sign_in(&database).await?;
                let SqlStatement { text, params } = self.charge(place, statement)?;
                let answer = session.query(&text, &params, self.room()).await?;
                self.carry_rows(place, answer)
            }
            SqlRequest::Begin {
                database,
                transaction,
            } => {
                if self.transactions.borrow().len() >= TRANSACTIONS_MAX {
                    let message = format!(
                        "an attempt may have {TRANSACTIONS_MAX} transactions open at a time"
                    );
                    return Err(HttpError::new(HttpErrorKind::LimitReached, message).into());
                }
                let (mut session, place) = self.sign_in(&database).await?;
                session.begin().await?;
                let opened = Rc::new(Mutex::new(Transaction { session, place }));
                self.transactions.borrow_mut().insert(transaction, opened);
                Ok(Answer::default())
            }
            SqlRequest::Step {
                transaction,
                statement,
            } => {
                let known = self.transactions.borrow().get(&transaction).cloned();
                let shared = known.ok_or_else(over)?;
                let mut opened = shared.lock().await;
                let SqlStatement { text, params } = self.charge(opened.place, statement)?;
                let session = &mut opened.session;
                let answer = session
                    .query_in_transaction(&text, &params, self.room())
                    .await?;
                self.carry_rows(opened.place, answer)
            }
            SqlRequest::End {
                transaction,
                commits,
            } => {
                let known = self.transactions.borrow_mut().remove(&transaction);
                let shared = known.ok_or_else(over)?;
                let ended = shared.lock().await.session.end(commits).await;
                ended.map(|()| Answer::default())
            }
        }
    }

    /// Returns a connection to a database of the manifest, and the place of its grant.
    async fn sign_in(&self, database: &str) -> Result<(SqlSession, GrantPlace), SqlError> {
        let mut grants = self.pass.sql.iter();
        let known = grants.position(|grant| grant.name.as_deref() == Some(database));
        let Some(index) = known else {
            let message = format!(
                "the manifest grants this handler no database {database}; add [[handlers.NAME.sql]] with name = {database:?} to it"
            );
            return Err(HttpError::new(HttpErrorKind::NotGranted, message).into());
        };
        let kind = GrantKind::Sql;
        let place = GrantPlace { kind, index };
        let (session, report) = self.connect(place, "SQL").await?;
        report.end_connection(RequestEnd::Closed, 0).await;
        Ok((SqlSession::new(session), place))
    }

    /// Waits until the largest rows fit into memory.
    async fn room(&self) -> Room<'_> {
        self.broker.room(&self.pass, SQL_ROWS_BYTES_MAX).await
    }

    /// Takes what a statement sends from what the attempt may carry.
    fn charge(&self, place: GrantPlace, statement: SqlStatement) -> Result<SqlStatement, SqlError> {
        let bytes = statement.text.len() + statement.params.len();
        if bytes > SQL_STATEMENT_BYTES_MAX {
            let message = format!(
                "the statement and its parameters have {bytes} bytes, more than {SQL_STATEMENT_BYTES_MAX}"
            );
            return Err(HttpError::new(HttpErrorKind::RequestTooLarge, message).into());
        }
        self.take(place, bytes).map(|()| statement)
    }

    fn carry_rows<R>(&self, place: GrantPlace, answer: Answer<R>) -> Result<Answer<R>, SqlError> {
        self.take(place, answer.rows.rows.len()).map(|()| answer)
    }

    fn take(&self, place: GrantPlace, bytes: usize) -> Result<(), SqlError> {
        if self.allowance.take_bytes(place, bytes) {
            return Ok(());
        }
        let message = "the attempt has used up the bytes that its manifest grants for the database (max_total_mib)";
        Err(HttpError::new(HttpErrorKind::LimitReached, message).into())
    }
}

fn over() -> SqlError {
    HttpError::new(HttpErrorKind::InvalidRequest, "the transaction is over").into()
}
