//! `host hero worker`: how long the queues of a worker are.

use std::time::Duration;

use clap::Args;
use host_console::client::segment;
use host_console::error::CliError;
use host_console::options::Remote;
use host_console::table::Rows;
use host_console::{human, plain};
use serde::Deserialize;

/// Show how long the queues of a worker are.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  host hero worker w1 -o json")]
pub(super) struct Worker {
    /// The worker's id
    id: String,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Deserialize)]
struct Queues {
    #[serde(default)]
    queued: u64,
    #[serde(default)]
    processing: u64,
    #[serde(default)]
    stops: u64,
    #[serde(default)]
    dead_letters: u64,
}

impl Worker {
    pub(super) fn run(self) -> Result<(), CliError> {
        let (client, output) = self.remote.open()?;
        let shown = plain::line(&self.id);
        let doing = format!("look at the queues of worker {shown}");
        let path = format!("/api/v1/hero/workers/{}", segment(&self.id));
        let answer = client.get(&doing, &path, Duration::ZERO)?;
        let queues: Queues = answer.read(&doing)?;
        output.one(&answer.body, &shown, || {
            let mut rows = Rows::pairs();
            rows.pair("worker", &shown);
            rows.pair("queued", &human::count(queues.queued));
            rows.pair("taken by hosts", &human::count(queues.processing));
            rows.pair("stop requests", &human::count(queues.stops));
            rows.pair("dead letters", &human::count(queues.dead_letters));
            output.rows(rows)
        })?;
        output.hint(&format!("`host hero ls --worker {shown}` lists its jobs"));
        Ok(())
    }
}
