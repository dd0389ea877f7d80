//! `host job ls`: reads the list page by page and shows the state of each job.

use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;
use host_console::client::{query, read};
use host_console::error::CliError;
use host_console::human::{self, ago};
use host_console::options::Remote;
use host_console::plain;
use host_console::table::{Cell, Column, Rows, state_cell};
use host_core::job::{STATES, State};
use host_core::query::PAGE_ITEMS_MAX;
use host_core::time::Time;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::filter::Filter;
use super::{View, failure_name, progress_line, short_ids};

/// List jobs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host job ls --state discarded --handler echo
  host job ls --state discarded --since 1h --failure timed_out --sort oldest
  host job ls --failure no_such_customer
  host job ls --attribute team=a --queue nightly --limit 100")]
pub(super) struct Ls {
    /// Only jobs in this state
    #[arg(long, value_parser = PossibleValuesParser::new(STATES.map(State::as_str)))]
    state: Option<String>,
    #[command(flatten)]
    filter: Filter,
    /// List the newest or the oldest first
    #[arg(long, value_name = "ORDER", default_value = "newest")]
    #[arg(value_parser = PossibleValuesParser::new(["newest", "oldest"]))]
    sort: String,
    /// List at most this many
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

impl Ls {
    pub(super) fn run(self) -> Result<(), CliError> {
        let (client, output) = self.remote.open()?;
        let doing = "list jobs";
        let mut items = Vec::new();
        let mut cursor = None;
        let mut now = None;
        let wanted = self.limit as usize;
        let filter = self.filter.parameters(&client)?;
        while items.len() < wanted {
            let left = u32::try_from(wanted - items.len()).unwrap_or(PAGE_ITEMS_MAX);
            let mut parameters = filter.clone();
            parameters.extend([
                ("state", self.state.clone()),
                ("sort", (self.sort != "newest").then(|| self.sort.clone())),
                ("limit", Some(left.min(PAGE_ITEMS_MAX).to_string())),
                ("cursor", cursor),
            ]);
            let path = format!("/api/v1/jobs{}", query(&parameters));
            let answer = client.get(doing, &path, Duration::ZERO)?;
            let page: Page = answer.read(doing)?;
            now = answer.now;
            items.extend(page.items);
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        items.truncate(wanted);
        let views: Vec<View> = items
            .iter()
            .map(|item| read(doing, item.get()))
            .collect::<Result<_, _>>()?;
        let name = |index: usize| {
            let id = views.get(index).map(|view| plain::line(&view.id));
            id.unwrap_or_default().into_owned()
        };
        output.list(&items, name, || table(&views, now))?;
        if let (true, Some(name)) = (views.is_empty(), self.filter.own_name()) {
            output.hint(&format!(
                "no jobs; {} is not a known kind of failure, so only error codes of \
                 handlers were searched; `host explain` lists the kinds",
                plain::line(name)
            ));
        } else if views.is_empty() {
            output.hint("no jobs; `host job enqueue NAME` enqueues one");
        } else if cursor.is_some() {
            output.hint(&format!(
                "there are more jobs: `host job ls --limit {}` lists them",
                self.limit.saturating_mul(5)
            ));
        } else {
            output.hint("`host job show ID` shows everything about one");
        }
        Ok(())
    }
}

fn table(views: &[View], now: Option<Time>) -> Rows {
    let mut rows = Rows::new(&[
        Column::Left("ID"),
        Column::Left("HANDLER"),
        Column::Left("QUEUE"),
        Column::Left("STATE"),
        Column::Right("ATTEMPT"),
        Column::Right("AGE"),
        Column::Right("WAITED"),
        Column::Right("RAN"),
        Column::Left("NOTE"),
    ]);
    let ids: Vec<_> = views.iter().map(|view| view.id.as_str()).collect();
    for (view, id) in views.iter().zip(short_ids(&ids)) {
        let (waited, ran) = view.times();
        rows.row(vec![
            Cell::new(id),
            Cell::new(plain::line(&view.handler)),
            Cell::new(plain::line(&view.queue)),
            state_cell(&plain::line(&view.state)),
            Cell::new(view.attempts()),
            Cell::new(ago(now, Some(&view.enqueued_at))),
            Cell::new(waited),
            Cell::new(ran),
            Cell::new(note(view, now)),
        ]);
    }
    rows
}

/// Returns what else there is to know about a job, in a few words.
fn note(view: &View, now: Option<Time>) -> String {
    if let (Some(at), false) = (&view.cancel_requested_at, view.is_terminal()) {
        return format!("cancel asked {} ago", ago(now, Some(at)));
    }
    match view.state.as_str() {
        "scheduled" | "retryable" => match ago(now, view.run_at.as_deref()) {
            starts if starts.starts_with("in ") => format!("starts {starts}"),
            _ => "due".to_owned(),
        },
        "running" => view
            .progress
            .as_ref()
            .map_or_else(String::new, progress_line),
        "discarded" => {
            let name = view.failure.as_ref().map(failure_name);
            name.unwrap_or_default()
        }
        _ if matches!(&*view.wire, "" | "http") => String::new(),
        _ => format!("came by {}", plain::line(&view.wire)),
    }
}
