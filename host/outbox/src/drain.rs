//! Takes jobs out of an outbox. A row is deleted after the host has committed its job; if the host is killed in between, the
//! row is offered again, and the host knows its id.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join, join_all};
use host_core::id::JobId;
use host_core::name::Name;
use host_core::port::accept::{Accept, Offer, Refusal};
use host_runtime::mailbox::respond;
use host_store::postgres::outside::{self, Outside, OutsideError};
use host_store::postgres::target::Target;
use tokio::time::Instant;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::numbers::{Numbers, OutboxNumbers};

/// The most rows of one transaction: each has 1 MiB at most.
const ROWS_MAX: i64 = 100;

/// How often rows are looked for without a notification: one may be lost, and a pooler passes none on.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// The pause before a database, or a host without room, is tried again, at first and at most.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// How long other refusals are only counted after one was logged.
const QUIET: Duration = Duration::from_mins(1);

/// A connection that does nothing for so long in a transaction belongs to a host that is suspended: the server ends it, so
/// that other hosts get its rows.
const SETTINGS: &str = "SET idle_in_transaction_session_timeout = '30s'; \
    SET statement_timeout = '30s'; LISTEN host_outbox";

const TAKE: &str = "SELECT id, job::text, extract(epoch FROM now() - created_at)::float8 FROM host.outbox \
    WHERE refused_at IS NULL ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED";

const DELETE: &str = "DELETE FROM host.outbox WHERE id = ANY($1)";

const REFUSE: &str = "UPDATE host.outbox SET refused_at = now(), problem = given.problem \
    FROM unnest($1::uuid[], $2::text[]) AS given (id, problem) WHERE outbox.id = given.id";

const TAKE_CANCELS: &str =
    "SELECT id FROM host.cancels ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED";

const DELETE_CANCELS: &str = "DELETE FROM host.cancels WHERE id = ANY($1)";

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
pub async fn drain(
    outbox: Outbox,
    accept: Arc<dyn Accept>,
    numbers: Numbers,
    stopping: CancellationToken,
) {
    let numbers = numbers.of_outbox(outbox.name.as_str());
    let draining = async {
        let mut trouble = Trouble::default();
        loop {
            let Err(error) = drain_connected(&outbox, &*accept, &numbers, &mut trouble).await;
            numbers.reachable.set(0);
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
    numbers: &OutboxNumbers,
    trouble: &mut Trouble,
) -> Result<std::convert::Infallible, OutsideError> {
    let mut connection = outside::connect(&outbox.target).await?;
    let wrap = |error| OutsideError::new("take jobs from the outbox", &outbox.target, &error);
    let mut refusals = RefusalLog::default();
    let settings = connection.client.batch_execute(SETTINGS).await;
    settings.map_err(wrap)?;
    loop {
        let taken = take(&mut connection, outbox, accept, numbers, &mut refusals).await;
        let intake = taken.map_err(wrap)?;
        numbers.reachable.set(1);
        match intake {
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

/// Offers the first rows that no other host offers, and cancels jobs that were accepted before.
async fn take(
    connection: &mut Outside,
    outbox: &Outbox,
    accept: &dyn Accept,
    numbers: &OutboxNumbers,
    refusals: &mut RefusalLog,
) -> Result<Intake, tokio_postgres::Error> {
    let transaction = connection.client.transaction().await?;
    let rows = transaction.query(TAKE, &[&ROWS_MAX]).await?;
    let cancels = transaction.query(TAKE_CANCELS, &[&ROWS_MAX]).await?;
    let lag = rows.first().map_or(0.0, |row| row.get::<_, f64>(2));
    numbers.lag.set(lag.max(0.0));
    let offering = rows.iter().map(|row| {
        let (id, job): (Uuid, String) = (row.get(0), row.get(1));
        let (answer, answered) = respond();
        accept.accept(Offer { id: JobId(id), job }, answer);
        async move { (id, answered.await.ok()) }
    });
    let cancelling = cancels.iter().map(|row| {
        let id: Uuid = row.get(0);
        let (answer, answered) = respond();
        accept.cancel(JobId(id), answer);
        async move { (id, answered.await.ok()) }
    });
    let (offers, cancelled) = join(Answers::wait(offering), Answers::wait(cancelling)).await;
    refusals.warn(&outbox.name, &offers, &cancelled);
    if !offers.done.is_empty() {
        transaction.execute(DELETE, &[&offers.done]).await?;
    }
    if !offers.refused.is_empty() {
        let values: [&(dyn ToSql + Sync); 2] = [&offers.refused, &offers.problems];
        transaction.execute(REFUSE, &values).await?;
    }
    let settled = [cancelled.done, cancelled.refused].concat();
    if !settled.is_empty() {
        transaction.execute(DELETE_CANCELS, &[&settled]).await?;
    }
    transaction.commit().await?;
    numbers.accepted.inc_by(offers.done.len() as u64);
    numbers.refused.inc_by(offers.refused.len() as u64);
    let may_be_more = |rows: &[Row]| i64::try_from(rows.len()) == Ok(ROWS_MAX);
    Ok(match offers.no_room.or(cancelled.no_room) {
        Some(why) => Intake::NoRoom(why),
        None if may_be_more(&rows) || may_be_more(&cancels) => Intake::Many,
        None => Intake::Few,
    })
}

/// Logs what the host refuses: the first refusal immediately, and others at most once a minute, with their number.
#[derive(Default)]
struct RefusalLog {
    unlogged: usize,
    quiet_until: Option<Instant>,
}

impl RefusalLog {
    fn warn(&mut self, outbox: &Name, offers: &Answers, cancelling: &Answers) {
        self.unlogged += offers.refused.len() + cancelling.refused.len();
        let ids = offers.refused.iter().chain(&cancelling.refused);
        let mut problems = offers.problems.iter().chain(&cancelling.problems);
        let now = Instant::now();
        if let (Some(id), Some(problem)) = (ids.last(), problems.next_back())
            && self.quiet_until.is_none_or(|until| until <= now)
        {
            let count = std::mem::take(&mut self.unlogged);
            tracing::warn!(
                outbox = %outbox, job = %id, count,
                "jobs of the outbox cannot be accepted or cancelled, such as this one: {problem}"
            );
            self.quiet_until = Some(now + QUIET);
        }
    }
}

/// What the host has answered about rows.
#[derive(Default)]
struct Answers {
    done: Vec<Uuid>,
    /// Rows that the host never takes, and why.
    refused: Vec<Uuid>,
    problems: Vec<String>,
    /// Why other rows must wait.
    no_room: Option<String>,
}

impl Answers {
    /// Waits for all answers and sorts them by their kind. Without an answer, the host stops.
    async fn wait<A>(answers: impl Iterator<Item = A>) -> Self
    where
        A: Future<Output = (Uuid, Option<Result<(), Refusal>>)>,
    {
        let mut sorted = Self::default();
        for (id, answer) in join_all(answers).await {
            match answer {
                Some(Ok(())) => sorted.done.push(id),
                Some(Err(Refusal::Never(problem))) => {
                    sorted.refused.push(id);
                    sorted.problems.push(problem);
                }
                Some(Err(Refusal::Later(why))) => sorted.no_room = Some(why),
                None => sorted.no_room = Some("the host stops".to_owned()),
            }
        }
        sorted
    }
}
