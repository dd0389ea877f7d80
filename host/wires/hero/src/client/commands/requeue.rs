//! `host hero requeue`: queues jobs again, by their ids or all that a worker has lost.

use clap::{ArgGroup, Args};
use host_api::client::Client;
use host_api::path;
use host_console::error::{CliError, cannot};
use host_console::ids::each;
use host_console::options::Remote;
use host_console::output::{Format, Output, put_line};
use host_console::{human, plain};
use serde_json::json;

use crate::client::api::path::{REQUEUE, STALE};
use crate::client::api::steer::{RequeueBody, RequeuedView, StaleBody};
use crate::client::api::view::HeroJobView;

/// Requeue jobs that have failed or whose worker has lost them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host hero requeue 3f2b8a1c-7d5e-4c1a-9b1e-0a6f4d2c8e11
  host hero requeue --stale --worker w1

A job is stale if it was started and its time limit has been over for 10 seconds, or if it is
neither started nor in a queue: then its worker took it and was lost.")]
#[command(group(ArgGroup::new("which").required(true).args(["ids", "stale"])))]
pub(super) struct Requeue {
    /// The jobs' ids
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// All stale jobs of a worker
    #[arg(long, requires = "worker")]
    stale: bool,
    /// The worker whose stale jobs to requeue
    #[arg(long, value_name = "ID", requires = "stale")]
    worker: Option<String>,
    /// Also requeue a job that its worker may still be running; it may then run twice
    #[arg(long, conflicts_with = "stale")]
    force: bool,
    #[command(flatten)]
    remote: Remote,
}

impl Requeue {
    pub(super) fn run(self) -> Result<(), CliError> {
        let (client, output) = self.remote.open()?;
        match &self.worker {
            Some(worker) => stale(&client, output, worker),
            None => each(&self.ids, |id| one(&client, output, id, self.force)),
        }
    }
}

fn one(client: &Client, output: Output, id: &str, force: bool) -> Result<(), CliError> {
    let shown = plain::line(id);
    let doing = format!("queue job {shown} again");
    let answer = client
        .post::<HeroJobView>(&path::with_name(REQUEUE, id), &RequeueBody { force })
        .map_err(cannot(&doing))?;
    let view = &answer.view;
    output.print_item(&answer.json, &shown, || {
        let worker = plain::line(&view.worker_id);
        if view.waits_for.is_empty() {
            return put_line(&format!("{shown} is queued again for {worker}"));
        }
        let others = view.waits_for(2);
        put_line(&format!(
            "{shown} waits for {others} and is queued after that"
        ))
    })
}

fn stale(client: &Client, output: Output, worker: &str) -> Result<(), CliError> {
    let shown = plain::line(worker);
    let doing = format!("queue the stale jobs of worker {shown} again");
    let path = path::with_name(STALE, worker);
    let mut ids = Vec::new();
    let mut body = StaleBody::default();
    loop {
        let answer = client.post::<RequeuedView>(&path, &body);
        let page = answer.map_err(cannot(&doing))?.view;
        ids.extend(page.requeued);
        body.cursor = page.next_cursor.and_then(|cursor| cursor.parse().ok());
        if body.cursor.is_none() {
            break;
        }
    }
    match output.format() {
        Format::Json | Format::Jsonl => output.json(&json!({ "requeued": ids }).to_string()),
        Format::Name => ids.iter().try_for_each(|id| put_line(&plain::line(id))),
        Format::Table => {
            let count = human::count(ids.len() as u64);
            let jobs = if ids.len() == 1 { "job is" } else { "jobs are" };
            put_line(&format!("{count} stale {jobs} queued again for {shown}"))?;
            ids.iter().try_for_each(|id| put_line(&plain::line(id)))
        }
    }
}
