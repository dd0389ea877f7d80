//! `host hero worker`: how long the queues of a worker are.

use clap::Args;
use host_api::path;
use host_console::error::{CliError, cannot};
use host_console::options::Remote;
use host_console::table::Rows;
use host_console::{human, plain};

use crate::client::api::list::WorkerView;
use crate::client::api::path::WORKER;

/// Show the lengths of a worker's queues.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  host hero worker w1 -o json")]
pub(super) struct Worker {
    /// The worker's id
    id: String,
    #[command(flatten)]
    remote: Remote,
}

impl Worker {
    pub(super) fn run(self) -> Result<(), CliError> {
        let (client, output) = self.remote.open()?;
        let shown = plain::line(&self.id);
        let doing = format!("read the queues of worker {shown}");
        let answer = client
            .get::<WorkerView>(&path::with_name(WORKER, &self.id))
            .map_err(cannot(&doing))?;
        let queues = &answer.view;
        output.print_item(&answer.json, &shown, || {
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
