//! `host hero ls`: reads the list, which has no order, and shows the newest jobs of it.

use std::collections::BTreeMap;

use clap::Args;
use host_api::client::{Client, Item, Page, with_query};
use host_console::error::{CliError, cannot};
use host_console::human::{self, ago};
use host_console::options::Remote;
use host_console::plain;
use host_console::table::{Cell, Color, Column, Rows};
use host_core::time::Time;

use crate::client::api::list::HeroListQuery;
use crate::client::api::path::JOBS;
use crate::client::api::view::HeroJobView;

/// How many jobs one request lists.
const PAGE_ITEMS: u32 = 1_000;

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

/// What was read: jobs by their ids, and whether there are more.
struct JobListing {
    jobs: BTreeMap<String, Item<HeroJobView>>,
    more: bool,
    now: Option<Time>,
}

impl Ls {
    pub(super) fn run(self) -> Result<(), CliError> {
        let (client, output) = self.remote.open()?;
        let found = self.read(&client)?;
        let mut jobs: Vec<_> = found.jobs.into_values().collect();
        let count = jobs.len();
        jobs.sort_by(|Item { view: a, .. }, Item { view: b, .. }| {
            b.created_at.cmp(&a.created_at).then(a.id.cmp(&b.id))
        });
        jobs.truncate(self.limit as usize);
        output.list(&jobs, |job| &job.id, || table(&jobs, found.now))?;
        if jobs.is_empty() {
            output.hint("no jobs; `host hero submit --worker ID --script TEXT` makes one");
        } else if found.more {
            output.note(&format!(
                "only {} jobs were read; there are more, perhaps newer ones",
                human::count(count as u64)
            ));
        } else if count > jobs.len() {
            let all = human::count(count as u64);
            output.hint(&format!("there are {all}: `host hero ls --limit {count}`"));
        } else {
            output.hint("`host hero status ID` shows everything about one");
        }
        Ok(())
    }

    fn read(&self, client: &Client) -> Result<JobListing, CliError> {
        let mut found = JobListing {
            jobs: BTreeMap::new(),
            more: false,
            now: None,
        };
        let mut query = HeroListQuery {
            worker_id: self.worker.clone(),
            status: self.status.clone(),
            limit: Some(PAGE_ITEMS),
            cursor: None,
        };
        loop {
            let path = with_query(JOBS, &query);
            let listed: Result<Page<HeroJobView>, _> = path.and_then(|path| client.get(&path));
            let page = listed.map_err(cannot("list Hero jobs"))?;
            found.now = page.now;
            let items = page.view.items.into_iter();
            found
                .jobs
                .extend(items.map(|item| (item.view.id.clone(), item)));
            query.cursor = page.view.next_cursor;
            found.more = query.cursor.is_some();
            if query.cursor.is_none() || found.jobs.len() >= READ_MAX {
                return Ok(found);
            }
        }
    }
}

fn table(jobs: &[Item<HeroJobView>], now: Option<Time>) -> Rows {
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
    for Item { view, .. } in jobs {
        let cell = Cell::new(view.state());
        let state = match view.status.as_str() {
            _ if view.stale || !view.waits_for.is_empty() => cell.fg(Color::Yellow),
            "finished" => cell.fg(Color::Green),
            "error" => cell.fg(Color::Red),
            "started" => cell.fg(Color::Cyan),
            _ => cell,
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
