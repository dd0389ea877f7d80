//! `host:jobs/sql`: statements for databases, which the broker sends.

use host_core::egress::{HttpErrorKind, SqlError, SqlRequest, SqlStatement};

use crate::bindings::host::jobs::sql::{Error, ErrorKind, Host, Rows};
use crate::context::Guest;

impl Guest {
    async fn ask(&mut self, asked: SqlRequest) -> Result<Rows, Error> {
        let link = self
            .egress
            .link()
            .map_err(|error| guest_error(error.into()))?;
        let buffered = link.ask(asked).await.map_err(guest_error)?;
        Ok(Rows {
            columns: buffered.rows.columns,
            rows: buffered.rows.rows,
            affected: buffered.rows.affected,
        })
    }

    async fn end(&mut self, transaction: u32, commits: bool) -> Result<(), Error> {
        let asked = SqlRequest::End {
            transaction,
            commits,
        };
        self.ask(asked).await.map(|_| ())
    }
}

impl Host for Guest {
    async fn query(
        &mut self,
        database: String,
        text: String,
        params: String,
    ) -> Result<Rows, Error> {
        let statement = SqlStatement { text, params };
        let asked = SqlRequest::Query {
            database,
            statement,
        };
        self.ask(asked).await
    }

    async fn begin(&mut self, database: String) -> Result<u32, Error> {
        let transaction = self.egress.next_transaction();
        let asked = SqlRequest::Begin {
            database,
            transaction,
        };
        self.ask(asked).await.map(|_| transaction)
    }

    async fn query_in(
        &mut self,
        transaction: u32,
        text: String,
        params: String,
    ) -> Result<Rows, Error> {
        let statement = SqlStatement { text, params };
        let asked = SqlRequest::Step {
            transaction,
            statement,
        };
        self.ask(asked).await
    }

    async fn commit(&mut self, transaction: u32) -> Result<(), Error> {
        self.end(transaction, true).await
    }

    async fn rollback(&mut self, transaction: u32) -> Result<(), Error> {
        self.end(transaction, false).await
    }
}

fn guest_error(error: SqlError) -> Error {
    let kind = match error.kind {
        HttpErrorKind::StatementRefused => ErrorKind::Refused,
        HttpErrorKind::NotGranted | HttpErrorKind::AddressNotAllowed => ErrorKind::NotGranted,
        HttpErrorKind::InvalidRequest => ErrorKind::InvalidRequest,
        HttpErrorKind::TimedOut => ErrorKind::TimedOut,
        HttpErrorKind::TooLarge | HttpErrorKind::RequestTooLarge => ErrorKind::TooLarge,
        HttpErrorKind::LimitReached => ErrorKind::LimitReached,
        HttpErrorKind::Unavailable => ErrorKind::Unavailable,
        HttpErrorKind::NameNotFound
        | HttpErrorKind::ConnectionRefused
        | HttpErrorKind::CertificateRefused
        | HttpErrorKind::LoginRefused
        | HttpErrorKind::ResponseIncomplete
        | HttpErrorKind::ResponseEncoded
        | HttpErrorKind::Unreachable => ErrorKind::Unreachable,
    };
    Error {
        kind,
        code: error.code,
        message: error.message,
    }
}
