//! Takes jobs out of an outbox. A row is deleted after the host has committed its job; if the host is killed in between, the
//! row is offered again, and the host knows its id.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use host_core::id::JobId;
use host_core::name::Name;
use host_core::port::accept::{Accept, Offer, Refusal};
use host_runtime::mailbox::respond;
use host_store::postgres::outside::{self, Outside, OutsideError};
use host_store::postgres::target::Target;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// The most rows of one transaction: each has 1 MiB at most.
const ROWS_MAX: i64 = 100;

/// How often rows are looked for without a notification: one may be lost, and a pooler passes none on.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// The pause before a database, or a host without room, is tried again, at first and at most.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// A connection that does nothing for so long in a transaction belongs to a host that is suspended: the server ends it, so
/// that other hosts get its rows.
const SETTINGS: &str = "SET idle_in_transaction_session_timeout = '30s'; \
    SET statement_timeout = '30s'; LISTEN host_outbox";

const TAKE: &str = "SELECT id, job::text FROM host.outbox WHERE refused_at IS NULL \
    ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED";

const DELETE: &str = "DELETE FROM host.outbox WHERE id = ANY($1)";

const REFUSE: &str = "UPDATE host.outbox SET refused_at = now(), problem = given.problem \
    FROM unnest($1::uuid[], $2::text[]) AS given (id, problem) WHERE outbox.id = given.id";

/// An outbox of the configuration.
#[derive(Clone, Debug)]
pub struct Outbox {
    pub name: Name,
    pub target: Target,
}

/// What one look has found.
enum Intake {
    /// There may be more.
    Many,
    /// There was nothing else.
    Few,
    /// The host takes no more for now, and why.
    NoRoom(String),
}

/// Hands over the jobs of an outbox until `stopping`, however often its database goes away.
///
/// Cancel safe: the transaction is rolled back, and the rows are offered again.
pub async fn drain(outbox: Outbox, accept: Arc<dyn Accept>, stopping: CancellationToken) {
    let draining = async {
        let mut trouble = Trouble::default();
        loop {
            let Err(error) = drain_connected(&outbox, &*accept, &mut trouble).await;
            trouble.warn(&outbox, &error.to_string());
            tokio::time::sleep(trouble.pause).await;
        }
    };
    tokio::select! {
        () = stopping.cancelled() => {}
        () = draining => {}
    }
}

/// Says once what is wrong, and waits longer each time.
struct Trouble {
    pause: Duration,
    message: Option<String>,
}

impl Default for Trouble {
    fn default() -> Self {
        Self {
            pause: PAUSE_MIN,
            message: None,
        }
    }
}

impl Trouble {
    fn warn(&mut self, outbox: &Outbox, message: &str) {
        self.pause = match self.message {
            Some(_) => (self.pause * 2).min(PAUSE_MAX),
            None => PAUSE_MIN,
        };
        if self.message.as_deref() != Some(message) {
            tracing::warn!(outbox = %outbox.name, "jobs wait in the outbox: {message}");
            self.message = Some(message.to_owned());
        }
    }

    fn end(&mut self, outbox: &Outbox) {
        if self.message.take().is_some() {
            tracing::info!(outbox = %outbox.name, "jobs of the outbox are accepted again");
        }
    }
}

async fn drain_connected(
    outbox: &Outbox,
    accept: &dyn Accept,
    trouble: &mut Trouble,
) -> Result<std::convert::Infallible, OutsideError> {
    let mut connection = outside::connect(&outbox.target).await?;
    let wrap = |error| OutsideError::new("take jobs from the outbox", &outbox.target, &error);
    let settings = connection.client.batch_execute(SETTINGS).await;
    settings.map_err(wrap)?;
    loop {
        match take(&mut connection, outbox, accept).await.map_err(wrap)? {
            Intake::Many => trouble.end(outbox),
            Intake::Few => {
                trouble.end(outbox);
                tokio::select! {
                    () = connection.notified() => {}
                    () = tokio::time::sleep(LOOK_EVERY) => {}
                }
            }
            Intake::NoRoom(why) => {
                trouble.warn(outbox, &why);
                tokio::time::sleep(trouble.pause).await;
            }
        }
    }
}

/// Offers the first rows that no other host offers.
async fn take(
    connection: &mut Outside,
    outbox: &Outbox,
    accept: &dyn Accept,
) -> Result<Intake, tokio_postgres::Error> {
    let transaction = connection.client.transaction().await?;
    let rows = transaction.query(TAKE, &[&ROWS_MAX]).await?;
    let offers = rows.iter().map(|row| {
        let (id, job): (Uuid, String) = (row.get(0), row.get(1));
        let offer = Offer { id: JobId(id), job };
        let (answer, answered) = respond();
        accept.accept(offer, answer);
        async move { (id, answered.await) }
    });
    let (mut accepted, mut refused, mut problems) = (Vec::new(), Vec::new(), Vec::new());
    let mut no_room = None;
    for (id, answer) in join_all(offers).await {
        match answer {
            Ok(Ok(())) => accepted.push(id),
            Ok(Err(Refusal::Never(problem))) => {
                let name = &outbox.name;
                tracing::warn!(outbox = %name, job = %id, "the outbox keeps a job that cannot be accepted: {problem}");
                refused.push(id);
                problems.push(problem);
            }
            Ok(Err(Refusal::Later(why))) => no_room = Some(why),
            Err(_) => no_room = Some("the host stops".to_owned()),
        }
    }
    if !accepted.is_empty() {
        transaction.execute(DELETE, &[&accepted]).await?;
    }
    if !refused.is_empty() {
        transaction.execute(REFUSE, &[&refused, &problems]).await?;
    }
    transaction.commit().await?;
    Ok(match no_room {
        Some(why) => Intake::NoRoom(why),
        None if i64::try_from(rows.len()) == Ok(ROWS_MAX) => Intake::Many,
        None => Intake::Few,
    })
}
