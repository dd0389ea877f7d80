//! `host hero ls`: reads the list, which has no order, and shows the newest jobs of it.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use host_console::client::{Client, query, read};
use host_console::error::CliError;
use host_console::human::{self, ago};
use host_console::options::Remote;
use host_console::plain;
use host_console::table::{Cell, Color, Column, Rows};
use host_core::time::Time;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::View;

/// How many jobs are asked for at once.
const PAGE_ITEMS: usize = 1_000;

/// The most jobs that are read to find the newest ones.
const READ_MAX: usize = 20_000;

/// List jobs, the newest first.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host hero ls --worker w1 --status error
  host hero ls --status started -o name | xargs host hero stop")]
pub(super) struct Ls {
    /// Only jobs for this worker
    #[arg(long, value_name = "ID")]
    worker: Option<String>,
    /// Only jobs in this status
    #[arg(long, value_parser = ["dispatched", "started", "finished", "error"])]
    status: Option<String>,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 20)]
    #[arg(value_parser = human::whole::<u32>(1, u32::MAX.into()))]
    limit: u32,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Deserialize)]
struct Page {
    items: Vec<Box<RawValue>>,
    next_cursor: Option<String>,
}

/// What was read: jobs by their ids, and whether there are more.
struct Found {
    jobs: BTreeMap<String, (Box<RawValue>, View)>,
    more: bool,
    now: Option<Time>,
}

impl Ls {
    pub(super) fn run(self) -> Result<(), CliError> {
        let (client, output) = self.remote.open()?;
        let found = self.read(&client)?;
        let mut jobs: Vec<_> = found.jobs.into_values().collect();
        let count = jobs.len();
        jobs.sort_by(|(_, a), (_, b)| b.created_at.cmp(&a.created_at).then(a.id.cmp(&b.id)));
        jobs.truncate(self.limit as usize);
        let (items, views): (Vec<_>, Vec<_>) = jobs.into_iter().unzip();
        let name = |index: usize| {
            let id = views.get(index).map(|view| plain::line(&view.id));
            id.unwrap_or_default().into_owned()
        };
        output.list(&items, name, || table(&views, found.now))?;
        if views.is_empty() {
            output.hint("no jobs; `host hero submit --worker ID --script TEXT` makes one");
        } else if found.more {
            output.note(&format!(
                "there are more than the {} jobs that were read, and newer ones may be among them",
                human::count(count as u64)
            ));
        } else if count > views.len() {
            let all = human::count(count as u64);
            output.hint(&format!("there are {all}: `host hero ls --limit {count}`"));
        } else {
            output.hint("`host hero status ID` says everything about one");
        }
        Ok(())
    }

    fn read(&self, client: &Client) -> Result<Found, CliError> {
        let doing = "list Hero jobs";
        let mut found = Found {
            jobs: BTreeMap::new(),
            more: false,
            now: None,
        };
        let mut cursor = None;
        loop {
            let parameters = [
                ("worker_id", self.worker.clone()),
                ("status", self.status.clone()),
                ("limit", Some(PAGE_ITEMS.to_string())),
                ("cursor", cursor),
            ];
            let path = format!("/api/v1/hero/jobs{}", query(&parameters));
            let answer = client.get(doing, &path, Duration::ZERO)?;
            let page: Page = answer.read(doing)?;
            found.now = answer.now;
            for item in page.items {
                let view: View = read(doing, item.get())?;
                found.jobs.insert(view.id.clone(), (item, view));
            }
            cursor = page.next_cursor;
            found.more = cursor.is_some();
            if cursor.is_none() || found.jobs.len() >= READ_MAX {
                return Ok(found);
            }
        }
    }
}

fn table(views: &[View], now: Option<Time>) -> Rows {
    let mut rows = Rows::new(&[
        Column::Left("ID"),
        Column::Left("STATUS"),
        Column::Left("WORKER"),
        Column::Left("RUNS"),
        Column::Left("CONTEXT"),
        Column::Right("AGE"),
        Column::Right("CHANGED"),
        Column::Left("WAITS FOR"),
    ]);
    for view in views {
        let state = Cell::new(view.state());
        let state = match view.status.as_str() {
            _ if view.stale || !view.waits_for.is_empty() => state.fg(Color::Yellow),
            "finished" => state.fg(Color::Green),
            "error" => state.fg(Color::Red),
            "started" => state.fg(Color::Cyan),
            _ => state,
        };
        rows.row(vec![
            Cell::new(plain::line(&view.id)),
            state,
            Cell::new(plain::line(&view.worker_id)),
            Cell::new(view.runs()),
            Cell::new(plain::line(&view.context_id)),
            Cell::new(ago(now, view.created_at.as_deref())),
            Cell::new(ago(now, view.updated_at.as_deref())),
            Cell::new(view.waits_for(1)),
        ]);
    }
    rows
}
