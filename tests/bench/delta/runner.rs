//! A runner on one persistent connection. It executes nothing.

use anyhow::{Context, Result, ensure};
use host_tests::delta::TOKEN;
use serde::Deserialize;

use crate::http::Connection;

/// A runner.
pub(super) struct Runner {
    connection: Connection,
    id: String,
}

#[derive(Deserialize)]
struct Granted {
    lease_id: String,
}

fn bearer() -> String {
    format!("authorization: Bearer {TOKEN}\r\n")
}

impl Runner {
    pub(super) async fn open(address: &str, number: usize) -> Result<Self> {
        Ok(Self {
            connection: Connection::open(address).await?,
            id: format!("r{number}"),
        })
    }

    /// Requests a lease. `None` if no job comes in time.
    pub(super) async fn lease(&mut self, wait_seconds: u64) -> Result<Option<String>> {
        let ask = format!(
            r#"{{"runner_id":"{}","capabilities":["os:linux"],"wait_seconds":{wait_seconds}}}"#,
            self.id
        );
        let path = "/api/v1/internal/lease";
        let bearer = bearer();
        let sent = self.connection.post_with(path, &bearer, ask.as_bytes());
        let (status, body) = sent.await?;
        if status == 204 {
            return Ok(None);
        }
        ensure!(status == 200, "a lease is refused with {status}");
        let granted: Granted = serde_json::from_slice(body).context("a lease cannot be read")?;
        Ok(Some(granted.lease_id))
    }

    /// Sends a message about a lease.
    async fn report(&mut self, path: &str, lease: &str, more: &str) -> Result<()> {
        let message = format!(
            r#"{{"lease_id":"{lease}","runner_id":"{}"{more}}}"#,
            self.id
        );
        let path = format!("/api/v1/internal/{path}");
        let bearer = bearer();
        let sent = self
            .connection
            .post_with(&path, &bearer, message.as_bytes());
        let (status, _) = sent.await?;
        ensure!(status == 200, "{path} is refused with {status}");
        Ok(())
    }

    pub(super) async fn ack(&mut self, lease: &str) -> Result<()> {
        self.report("ack-lease", lease, "").await
    }

    pub(super) async fn heartbeat(&mut self, lease: &str) -> Result<()> {
        self.report("heartbeat", lease, r#","progress":{"percent":50}"#)
            .await
    }

    pub(super) async fn complete(&mut self, lease: &str) -> Result<()> {
        self.report("complete", lease, r#","status":"SUCCEEDED","exit_code":0"#)
            .await
    }

    /// Acknowledges a lease and completes its job.
    pub(super) async fn execute(&mut self, lease: &str) -> Result<()> {
        self.ack(lease).await?;
        self.complete(lease).await
    }
}
