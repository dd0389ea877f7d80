//! `--all`: a change of all jobs that match. Shows what it would change, asks, and continues page by page
//! with a progress bar.

use std::io::{IsTerminal as _, Write as _};

use clap::Args;
use host_api::change::{CountView, ManyView, RefusalView};
use host_api::client::{Answer, Client, Error};
use host_api::filter::FilterQuery;
use host_console::error::{CliError, Exit, cannot};
use host_console::interrupt::Farewell;
use host_console::output::{Output, say};
use host_console::progress::Bar;
use host_console::table::Rows;
use host_console::{human, plain};
use host_core::job::State;
use host_core::query::{Order, PAGE_ITEMS_MAX};
use serde_json::json;

use super::filter::Filter;
use super::states;

/// Which jobs, instead of ids.
#[derive(Debug, Args)]
pub(super) struct Many {
    /// All jobs that match the options below, instead of ids; shows them and asks first
    #[arg(long)]
    all: bool,
    /// Only jobs in this state (repeatable)
    #[arg(long, requires = "all", value_parser = states())]
    state: Vec<String>,
    #[command(flatten)]
    filter: Filter,
    /// Change at most this many, the oldest first
    #[arg(long, value_name = "N", requires = "all")]
    #[arg(value_parser = human::whole::<u64>(1, u64::MAX))]
    limit: Option<u64>,
    /// Only show what would be changed
    #[arg(long, requires = "all")]
    dry_run: bool,
    /// Do not ask
    #[arg(short, long, requires = "all")]
    yes: bool,
}

/// How to change jobs that something else than options chooses.
#[derive(Debug, Args)]
pub(crate) struct Caution {
    /// Change at most this many, the oldest first
    #[arg(long, value_name = "N", value_parser = human::whole::<u64>(1, u64::MAX))]
    limit: Option<u64>,
    /// Only show what would be changed
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

/// What is done to the jobs.
pub(super) struct Action {
    /// The verb.
    pub(super) name: &'static str,
    /// The states of its jobs if none is given; none if one must be given.
    pub(super) states: &'static [State],
    /// The states that can be given.
    pub(super) allowed: &'static [State],
    /// What has become of the jobs, for people.
    pub(super) done: &'static str,
}

/// What has been changed so far.
#[derive(Default)]
struct Totals {
    matched: u64,
    changed: u64,
    stopping: u64,
    /// How many of these have started since they were read, and are not yet found again among those that run.
    started: u64,
    unchanged: u64,
    refused: u64,
    in_other_state: u64,
    /// The first few.
    refusals: Vec<RefusalView>,
}

impl Many {
    /// Chooses the jobs that match a filter, in the usual states of the change or in these.
    pub(super) fn matching(filter: Filter, states: &[State], caution: &Caution) -> Self {
        Self {
            all: true,
            state: states.iter().map(State::to_string).collect(),
            filter,
            limit: caution.limit,
            dry_run: caution.dry_run,
            yes: caution.yes,
        }
    }

    /// Returns whether `--all` is given, or an option that only goes with it.
    pub(super) fn is_asked(&self) -> bool {
        self.all || self.filter.is_given()
    }

    /// Shows what matches, asks, and changes it. `change` changes one page of jobs.
    pub(super) fn run(
        &self,
        client: &Client,
        output: Output,
        action: &Action,
        change: impl Fn(&FilterQuery) -> Result<Answer<ManyView>, Error>,
    ) -> Result<(), CliError> {
        let doing = format!("{} jobs", action.name);
        if !self.all {
            let cause = "filters need --all";
            return Err(CliError::new(Exit::Usage, doing, cause)
                .next("give ids without filters, or --all with them"));
        }
        let states = self.states(action, &doing)?;
        let filter = self.filter.query(client)?;
        let query = |state: State| FilterQuery {
            state: Some(state),
            ..filter.clone()
        };
        let counts = states
            .iter()
            .map(|state| Ok((*state, count(client, query(*state))?)))
            .collect::<Result<Vec<_>, Error>>()
            .map_err(cannot(&doing))?;
        let matching: u64 = counts.iter().map(|(_, count)| count.jobs).sum();
        let limit = self.limit.unwrap_or(u64::MAX);
        if self.dry_run {
            return preview(output, &counts, matching.min(limit), action);
        }
        if output.is_human() {
            preview(output, &counts, matching.min(limit), action)?;
        }
        if matching == 0 {
            return Ok(());
        }
        self.confirm(&doing)?;
        let bar = Bar::new(output, &doing, matching.min(limit));
        let mut changed = Totals::default();
        let words = "jobs that were changed stay so; the same command continues with the others";
        let _farewell = Farewell::say(output, words.to_owned());
        for state in states {
            let doing = format!("{doing} that are {}", state.as_str());
            pages(query(state), limit, &mut changed, &bar, &change).map_err(cannot(&doing))?;
        }
        drop(bar);
        print_totals(output, action, &changed)
    }

    fn states(&self, action: &Action, doing: &str) -> Result<Vec<State>, CliError> {
        let allowed: Vec<_> = action.allowed.iter().map(|state| state.as_str()).collect();
        let wrong = |cause: String| {
            let next = format!("give --state with one of {}", allowed.join(", "));
            CliError::new(Exit::Usage, doing, cause).next(next)
        };
        if self.state.is_empty() {
            if action.states.is_empty() {
                return Err(wrong("missing --state".to_owned()));
            }
            return Ok(action.states.to_vec());
        }
        let given = self.state.iter().filter_map(|name| State::from_name(name));
        let mut states: Vec<_> = given.collect();
        states.sort_unstable();
        states.dedup();
        match states.iter().find(|state| !action.allowed.contains(state)) {
            Some(state) => Err(wrong(format!(
                "not possible for jobs that are {}",
                state.as_str()
            ))),
            None => Ok(states),
        }
    }

    fn confirm(&self, doing: &str) -> Result<(), CliError> {
        if self.yes {
            return Ok(());
        }
        let refused = |cause: &str| {
            Err(CliError::new(Exit::Usage, doing, cause)
                .next("pass --yes to skip the confirmation"))
        };
        if !std::io::stdin().is_terminal() {
            return refused("cannot confirm: stdin is not a terminal");
        }
        let mut err = std::io::stderr().lock();
        let _ = write!(err, "{doing}? [y/N] ").and_then(|()| err.flush());
        let mut answer = String::new();
        let _ = std::io::stdin().read_line(&mut answer);
        if matches!(answer.trim(), "y" | "Y" | "yes") {
            return Ok(());
        }
        refused("not confirmed; nothing was changed")
    }
}

/// Prints how many jobs of each state match.
fn preview(
    output: Output,
    counts: &[(State, CountView)],
    jobs: u64,
    action: &Action,
) -> Result<(), CliError> {
    let document = json!({
        "action": action.name,
        "jobs": jobs,
        "states": counts.iter().map(|(state, count)| json!({
            "state": state.as_str(),
            "jobs": count.jobs,
            "complete": count.complete,
            "oldest": count.oldest,
            "newest": count.newest,
        })).collect::<Vec<_>>(),
    });
    output.print_item(&document.to_string(), &jobs.to_string(), || {
        let mut rows = Rows::pairs();
        rows.pair("would change", &human::count(jobs));
        for (state, count) in counts.iter().filter(|(_, count)| count.jobs > 0) {
            let more = if count.complete { "" } else { " or more" };
            let span = [&count.oldest, &count.newest].map(|at| at.clone().unwrap_or_default());
            let [oldest, newest] = span.map(|at| plain::line(&at).into_owned());
            let jobs = human::count(count.jobs);
            rows.pair(
                state.as_str(),
                &format!("{jobs}{more}, enqueued from {oldest} to {newest}"),
            );
        }
        output.rows(rows)
    })
}

/// Changes the jobs of one state, page by page, the oldest first.
fn pages(
    mut query: FilterQuery,
    limit: u64,
    changed: &mut Totals,
    bar: &Bar,
    change: impl Fn(&FilterQuery) -> Result<Answer<ManyView>, Error>,
) -> Result<(), Error> {
    query.sort = Some(Order::Oldest);
    loop {
        let left = limit - changed.matched;
        if left == 0 {
            return Ok(());
        }
        query.limit = Some(u32::try_from(left).map_or(PAGE_ITEMS_MAX, |n| n.min(PAGE_ITEMS_MAX)));
        let mut page = change(&query)?.view;
        page.leave_out_started(query.state, &mut changed.started);
        bar.add(page.matched);
        changed.add(&page);
        let room = REFUSALS_MAX.saturating_sub(changed.refusals.len());
        changed
            .refusals
            .extend(page.refusals.into_iter().take(room));
        query.cursor = page.next_cursor;
        if query.cursor.is_none() {
            return Ok(());
        }
    }
}

/// How many refusals are shown.
const REFUSALS_MAX: usize = 10;

impl Totals {
    fn add(&mut self, page: &ManyView) {
        self.matched += page.matched;
        self.changed += page.changed;
        self.stopping += page.stopping;
        self.unchanged += page.unchanged;
        self.refused += page.refused;
        self.in_other_state += page.in_other_state;
    }
}

fn print_totals(output: Output, action: &Action, changed: &Totals) -> Result<(), CliError> {
    let document = json!({
        "action": action.name,
        "matched": changed.matched,
        "changed": changed.changed,
        "stopping": changed.stopping,
        "unchanged": changed.unchanged,
        "refused": changed.refused,
        "in_other_state": changed.in_other_state,
    });
    output.print_item(&document.to_string(), &changed.changed.to_string(), || {
        let mut rows = Rows::pairs();
        let done = changed.changed.saturating_sub(changed.stopping);
        rows.pair(action.done, &human::count(done));
        for (name, jobs) in [
            ("asked to stop", changed.stopping),
            ("asked to stop before", changed.unchanged),
            ("in another state by then", changed.in_other_state),
            (
                "refused",
                changed.refused.saturating_sub(changed.in_other_state),
            ),
        ] {
            if jobs > 0 {
                rows.pair(name, &human::count(jobs));
            }
        }
        output.rows(rows)
    })?;
    for refusal in &changed.refusals {
        let (id, detail) = (plain::line(&refusal.id), plain::line(&refusal.detail));
        say(&format!("{id}: {detail}"));
    }
    match changed.refused {
        0 => Ok(()),
        _ => Err(CliError::Silent(Exit::Failed)),
    }
}

/// Counts all jobs that match, request by request.
fn count(client: &Client, mut query: FilterQuery) -> Result<CountView, Error> {
    let mut sum = client.count_jobs(&query)?.view;
    while let Some(cursor) = sum.next_cursor.take() {
        query.cursor = Some(cursor);
        let more = client.count_jobs(&query)?.view;
        sum.jobs += more.jobs;
        sum.oldest = sum.oldest.into_iter().chain(more.oldest).min();
        sum.newest = sum.newest.into_iter().chain(more.newest).max();
        (sum.complete, sum.next_cursor) = (more.complete, more.next_cursor);
    }
    Ok(sum)
}
