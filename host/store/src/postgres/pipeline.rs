//! Statements that are sent together and answered in order: one round trip for all of them.

use std::borrow::Cow;
use std::future::poll_fn;
use std::task::Poll;

use futures_util::FutureExt as _;
use futures_util::future::{LocalBoxFuture, MaybeDone, maybe_done};
use tokio_postgres::Row;

use super::client::Client;
use super::trouble::Trouble;
use super::typed::Typed;

/// The value of a parameter.
pub(super) type Value = Box<dyn Typed>;

type Answer = Result<Vec<Row>, Trouble>;

/// Statements in the order in which they are sent.
pub(super) struct Pipeline<'a> {
    client: &'a Client,
    steps: Vec<MaybeDone<LocalBoxFuture<'a, Answer>>>,
}

impl<'a> Pipeline<'a> {
    pub(super) fn new(client: &'a Client) -> Self {
        Self {
            client,
            steps: Vec::new(),
        }
    }

    /// Returns how many statements were added.
    pub(super) fn len(&self) -> usize {
        self.steps.len()
    }

    /// Adds a statement. Prepares it here when it is first used on a connection that keeps statements.
    pub(super) async fn add(
        &mut self,
        operation: &'static str,
        sql: impl Into<Cow<'static, str>>,
        values: Vec<Value>,
    ) -> Result<(), Trouble> {
        let failed = move |error| Trouble::of(operation, &error);
        let (client, sql) = (self.client, sql.into());
        client.ready(&sql).await.map_err(failed)?;
        let step = async move {
            let values: Vec<&dyn Typed> = values.iter().map(|it| &**it).collect();
            client.ask(&sql, &values).await.map_err(failed)
        };
        self.steps.push(maybe_done(step.boxed_local()));
        Ok(())
    }

    /// Adds a statement without values and rows, such as `BEGIN`.
    pub(super) fn simple(&mut self, operation: &'static str, sql: &'static str) {
        let client = self.client;
        let step = async move {
            let done = client.batch_execute(sql).await;
            done.map_err(|error| Trouble::of(operation, &error))?;
            Ok(Vec::new())
        };
        self.steps.push(maybe_done(step.boxed_local()));
    }

    /// Sends all statements and returns their rows, or the first error.
    pub(super) async fn run(mut self) -> Result<Vec<Vec<Row>>, Trouble> {
        let steps = &mut self.steps;
        // A statement is sent when it is first polled.
        poll_fn(|context| {
            let mut done = true;
            for step in steps.iter_mut() {
                done &= step.poll_unpin(context).is_ready();
            }
            if done { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        let answers = self.steps.into_iter();
        let taken = answers.filter_map(|mut step| std::pin::Pin::new(&mut step).take_output());
        taken.collect()
    }
}

/// Boxes the values of a statement.
macro_rules! values {
    ($($value:expr),* $(,)?) => {
        vec![$(Box::new($value) as $crate::postgres::pipeline::Value),*]
    };
}
pub(super) use values;
