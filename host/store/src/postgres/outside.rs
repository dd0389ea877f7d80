//! A connection to another database than the store's: that of an application.

use std::future::poll_fn;
use std::sync::Arc;

use host_engine::StoreError;
use thiserror::Error;
use tokio::sync::Notify;
use tokio_postgres::AsyncMessage;
use tokio_postgres::error::SqlState;

use super::ANSWER_TIMEOUT;
use super::client::{Connector, Listening};
use super::target::Target;
use super::trouble::{CONNECT, explain};
use super::wait::Driver;

/// Why something in another database failed.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct OutsideError(String);

impl OutsideError {
    /// Says what was being done, and where.
    pub fn new(operation: &str, target: &Target, error: &tokio_postgres::Error) -> Self {
        let hint = match error.code() {
            Some(&SqlState::UNDEFINED_TABLE) => "; run `host outbox install` there first",
            Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
                "; give the role its rights with `host outbox install --host-role ROLE`"
            }
            _ => "",
        };
        let target = target.with_origin();
        Self(format!(
            "cannot {operation} in {target}: {}{hint}",
            explain(error)
        ))
    }
}

impl From<StoreError> for OutsideError {
    fn from(error: StoreError) -> Self {
        Self(error.to_string())
    }
}

/// A connection. It is closed when this is dropped.
pub struct Outside {
    pub client: tokio_postgres::Client,
    notified: Arc<Notify>,
}

impl Outside {
    /// Waits for a notification of a channel to which the client listens, or for the end of the connection. Cancel safe.
    pub async fn notified(&self) {
        self.notified.notified().await;
    }
}

/// Connects. A task of the caller's runtime drives the connection.
#[expect(
    clippy::disallowed_methods,
    reason = "the task ends with the client of its connection"
)]
pub async fn connect(target: &Target) -> Result<Outside, OutsideError> {
    let connector = Connector::new(target)?;
    let connected = tokio::time::timeout(ANSWER_TIMEOUT, connector.listen()).await;
    let Ok(connected) = connected else {
        let (target, seconds) = (target.with_origin(), ANSWER_TIMEOUT.as_secs());
        let message = format!("{target}: the server did not answer within {seconds} s");
        return Err(OutsideError(message));
    };
    let Listening {
        client,
        mut messages,
    } = connected.map_err(|trouble| trouble.into_error(CONNECT))?;
    let notified = Arc::new(Notify::new());
    let hinted = Arc::clone(&notified);
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| messages(context)).await {
            if matches!(message, AsyncMessage::Notification(_)) {
                hinted.notify_one();
            }
        }
        // The next statement says how it has ended.
        hinted.notify_one();
    });
    Ok(Outside { client, notified })
}

/// Connects, and waits for what is done with the connection. Blocks.
pub fn ask<T>(
    target: &Target,
    question: impl AsyncFnOnce(&mut Outside) -> Result<T, OutsideError>,
) -> Result<T, OutsideError> {
    let driver = Driver::start()?;
    driver.wait(async {
        let mut connection = connect(target).await?;
        question(&mut connection).await
    })
}
