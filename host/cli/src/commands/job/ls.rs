//! `host job ls`: reads the list page by page and shows the state of each job.

use clap::Args;
use clap::builder::PossibleValuesParser;
use host_api::client::Item;
use host_api::filter::FilterQuery;
use host_console::error::{CliError, cannot};
use host_console::human::{self, ago};
use host_console::options::Remote;
use host_console::plain;
use host_console::table::{Cell, Column, Rows, state_cell};
use host_core::job::State;
use host_core::query::{Order, PAGE_ITEMS_MAX};
use host_core::time::Time;

use super::filter::Filter;
use super::{View, failure_name, progress_line, short_ids, states};
use crate::commands::node;

/// List jobs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host job ls --state discarded --handler echo
  host job ls --state discarded --since 1h --failure timed_out --sort oldest
  host job ls --failure no_such_customer
  host job ls --attribute team=a --queue nightly --limit 100
  host job ls --param order.id=77")]
pub(super) struct Ls {
    /// Only jobs in this state
    #[arg(long, value_parser = states())]
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

impl Ls {
    pub(super) fn run(self) -> Result<(), CliError> {
        let (client, output) = self.remote.open()?;
        let doing = "list jobs";
        let mut items = Vec::new();
        let mut now = None;
        let wanted = self.limit as usize;
        let mut query = FilterQuery {
            state: self.state.as_deref().and_then(State::from_name),
            sort: (self.sort == "oldest").then_some(Order::Oldest),
            ..self.filter.query(&client)?
        };
        while items.len() < wanted {
            let left = u32::try_from(wanted - items.len()).unwrap_or(PAGE_ITEMS_MAX);
            query.limit = Some(left.min(PAGE_ITEMS_MAX));
            let answer = client.jobs(&query).map_err(cannot(doing))?;
            now = answer.now;
            items.extend(answer.view.items.into_iter().map(|item| item.map(View)));
            query.cursor = answer.view.next_cursor;
            if query.cursor.is_none() {
                break;
            }
        }
        items.truncate(wanted);
        output.list(&items, |job| &job.id, || table(&items, now))?;
        if let (true, Some(name)) = (items.is_empty(), self.filter.own_name()) {
            output.hint(&format!(
                "no jobs; {} is not a known kind of failure, so only handlers' own \
                 names of errors were searched; `host explain` lists the kinds",
                plain::line(name)
            ));
        } else if items.is_empty() && (self.state.is_some() || self.filter.is_given()) {
            output.hint("no jobs match");
        } else if items.is_empty() {
            output.hint("no jobs; `host job enqueue NAME` enqueues one");
        } else if query.cursor.is_some() {
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

fn table(items: &[Item<View>], now: Option<Time>) -> Rows {
    let nodes: Vec<_> = items
        .iter()
        .filter_map(|it| it.view.node.as_ref())
        .collect();
    let mut columns = vec![
        Column::Left("ID"),
        Column::Left("HANDLER"),
        Column::Left("QUEUE"),
        Column::Left("STATE"),
        Column::Right("ATTEMPT"),
        Column::Right("AGE"),
        Column::Right("WAITED"),
        Column::Right("RAN"),
        Column::Left("NOTE"),
    ];
    if !nodes.is_empty() {
        columns.insert(4, Column::Left("NODE"));
    }
    let mut rows = Rows::new(&columns);
    let ids: Vec<_> = items.iter().map(|item| item.view.id.as_str()).collect();
    for (Item { view, .. }, id) in items.iter().zip(short_ids(&ids)) {
        let (waited, ran) = view.times();
        let mut cells = vec![
            Cell::new(id),
            Cell::new(plain::line(&view.handler)),
            Cell::new(plain::line(&view.queue)),
            state_cell(&plain::line(&view.state)),
            Cell::new(view.attempts()),
            Cell::new(ago(now, Some(&view.enqueued_at))),
            Cell::new(waited),
            Cell::new(ran),
            Cell::new(note(view, now)),
        ];
        if !nodes.is_empty() {
            let runs_at = view.node.as_ref();
            let node = runs_at.map(|runs_at| node::name_among(runs_at, &nodes));
            cells.insert(4, Cell::new(node.unwrap_or_default()));
        }
        rows.row(cells);
    }
    rows
}

/// Returns what else there is to know about a job, in a few words.
fn note(view: &View, now: Option<Time>) -> String {
    if let (Some(at), false) = (&view.cancel_requested_at, view.is_terminal()) {
        return format!("cancel requested {} ago", ago(now, Some(at)));
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
        _ => format!("via {}", plain::line(&view.wire)),
    }
}
