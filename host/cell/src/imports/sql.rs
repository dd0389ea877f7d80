//! `host:jobs/sql`: statements for databases, which the broker sends.

use host_core::egress::{HttpErrorKind, SqlError, SqlRequest, SqlStatement};
use tokio::task;
use wasmtime::Result;
use wasmtime::component::Resource;

use crate::bindings::host::jobs::sql::{Error, ErrorKind, Host, HostTransaction, Rows};
use crate::context::Guest;
use crate::egress::Link;

/// A transaction of a guest.
#[expect(unreachable_pub, reason = "the generated bindings export it")]
pub struct Transaction {
    number: u32,
    link: Link,
    is_over: bool,
}

impl Guest {
    async fn ask(&mut self, asked: SqlRequest) -> Result<Rows, Error> {
        let link = self.egress.link().map_err(|error| error.into());
        ask(link, asked).await
    }

    fn transaction(&mut self, this: &Resource<Transaction>) -> Result<&mut Transaction> {
        let (_, table) = self.socket_parts();
        Ok(table.get_mut(this)?)
    }

    async fn end(
        &mut self,
        this: &Resource<Transaction>,
        commits: bool,
    ) -> Result<Result<(), Error>> {
        let open = self.transaction(this)?;
        open.is_over = true;
        let (link, transaction) = (open.link.clone(), open.number);
        let asked = SqlRequest::End {
            transaction,
            commits,
        };
        Ok(ask(Ok(link), asked).await.map(|_| ()))
    }
}

async fn ask(link: Result<Link, SqlError>, asked: SqlRequest) -> Result<Rows, Error> {
    let answered = async { link?.ask(asked).await };
    let buffered = answered.await.map_err(guest_error)?;
    Ok(Rows {
        columns: buffered.rows.columns,
        rows: buffered.rows.rows,
        affected: buffered.rows.affected,
    })
}

impl Host for Guest {
    async fn query(
        &mut self,
        database: String,
        text: String,
        params: String,
    ) -> Result<Rows, Error> {
        let statement = SqlStatement { text, params };
        self.ask(SqlRequest::Query {
            database,
            statement,
        })
        .await
    }
}

impl HostTransaction for Guest {
    async fn begin(&mut self, database: String) -> Result<Resource<Transaction>, Error> {
        let link = self
            .egress
            .link()
            .map_err(|error| guest_error(error.into()))?;
        let number = self.egress.next_transaction();
        let asked = SqlRequest::Begin {
            database,
            transaction: number,
        };
        ask(Ok(link.clone()), asked).await?;
        let (_, table) = self.socket_parts();
        let open = Transaction {
            number,
            link,
            is_over: false,
        };
        table.push(open).map_err(|error| Error {
            kind: ErrorKind::LimitReached,
            code: None,
            message: format!("the handler holds too many resources: {error}"),
        })
    }

    async fn query(
        &mut self,
        this: Resource<Transaction>,
        text: String,
        params: String,
    ) -> Result<Rows, Error> {
        let open = self.transaction(&this).map_err(|_| over())?;
        let (link, transaction) = (open.link.clone(), open.number);
        let statement = SqlStatement { text, params };
        let asked = SqlRequest::Step {
            transaction,
            statement,
        };
        ask(Ok(link), asked).await
    }

    async fn commit(&mut self, this: Resource<Transaction>) -> Result<(), Error> {
        self.end(&this, true).await.map_err(|_| over())?
    }

    async fn rollback(&mut self, this: Resource<Transaction>) -> Result<(), Error> {
        self.end(&this, false).await.map_err(|_| over())?
    }

    fn drop(&mut self, this: Resource<Transaction>) -> Result<()> {
        let (_, table) = self.socket_parts();
        let open = table.delete(this)?;
        if !open.is_over {
            let asked = SqlRequest::End {
                transaction: open.number,
                commits: false,
            };
            // The end of the run does it too.
            task::spawn(async move { drop(open.link.ask(asked).await) });
        }
        Ok(())
    }
}

fn over() -> Error {
    Error {
        kind: ErrorKind::InvalidRequest,
        code: None,
        message: "the transaction is over".to_owned(),
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
