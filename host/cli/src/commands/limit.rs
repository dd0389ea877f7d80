//! `host limit`: how many jobs of a key may run or start.

use clap::{ArgGroup, Args, Subcommand};
use host_api::client::Item;
use host_api::limit::{KeyBody, LimitBody, LimitKeyView, LimitView, MatchBody, RateBody};
use host_api::words::choice;
use host_console::error::{CliError, cannot, cannot_find};
use host_console::options::Remote;
use host_console::output::put_line;
use host_console::table::{Cell, Column, Rows};
use host_console::{human, plain};
use host_core::seconds::Seconds;
use host_engine::limit::WhenFull;

use crate::complete;

/// Set, list, show and remove limits by key.
#[derive(Debug, Args)]
pub(crate) struct Limit {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Create or replace a limit
    #[command(after_help = "\
Examples:
  host limit set by-customer --key /customer --concurrency 3
  host limit set mail --queue 'mail*' --rate 100/1m --burst 10
  host limit set recipients --rate 1000/1m --units /recipients
  host limit set uploads --handler upload --key attributes:region --concurrency 1 --when-full refuse
  host limit set builds --key /branch --concurrency 1 --when-full cancel_running")]
    Set(Box<Set>),
    /// List the limits
    #[command(after_help = "Example:\n  host limit ls -o json")]
    Ls(Remote),
    /// Show a limit and its fullest keys
    #[command(after_help = "Example:\n  host limit show by-customer --keys 5")]
    Show(Show),
    /// Remove a limit; jobs no longer wait for it
    #[command(after_help = "Example:\n  host limit rm by-customer")]
    Rm(LimitArgs),
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("bounds").required(true).multiple(true).args(["concurrency", "rate"])))]
struct Set {
    /// The limit's name
    #[arg(add = complete::limits())]
    name: String,
    /// Only jobs of these queues; * matches any characters
    #[arg(long, value_name = "GLOB")]
    #[arg(add = complete::queues())]
    queue: Option<String>,
    /// Only jobs for these handlers; * matches any characters
    #[arg(long, value_name = "GLOB")]
    #[arg(add = complete::handlers())]
    handler: Option<String>,
    /// What jobs have in common: a JSON pointer into params, or attributes:NAME (repeatable)
    #[arg(long, value_name = "PART")]
    key: Vec<String>,
    /// Let this many jobs of a key run concurrently
    #[arg(long, value_name = "N", value_parser = human::whole::<u32>(1, 1_000_000))]
    concurrency: Option<u32>,
    /// Let this many jobs of a key start per period: COUNT/DURATION, such as 100/1m
    #[arg(long, value_name = "RATE", value_parser = rate)]
    rate: Option<RateBody>,
    /// Let up to this many start together after a pause [default: the count of the rate]
    #[arg(long, value_name = "N", value_parser = human::whole::<u32>(1, 1_000_000), requires = "rate")]
    burst: Option<u32>,
    /// Let each start take as much of the rate as the job says here: a JSON pointer into params, or attributes:NAME
    #[arg(long, value_name = "PART", requires = "rate")]
    units: Option<String>,
    /// What happens to a new job whose key is full: `wait`, `refuse`, `replace_waiting` or `cancel_running` [default: wait]
    #[arg(long, value_name = "CHOICE", value_parser = choice::<WhenFull>)]
    when_full: Option<WhenFull>,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Args)]
struct LimitArgs {
    /// The limit's name
    #[arg(add = complete::limits())]
    name: String,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Args)]
struct Show {
    /// How many keys to show
    #[arg(long, value_name = "N", default_value = "20", value_parser = human::whole::<u32>(1, 1_000))]
    keys: u32,
    #[command(flatten)]
    named: LimitArgs,
}

/// What helps if the host does not know a limit.
const LISTED: &str = "`host limit ls` lists the limits";

/// Reads a rate: `100/1m`.
fn rate(text: &str) -> Result<RateBody, String> {
    let form = "expected COUNT/DURATION with whole seconds, such as 100/1m";
    let (count, time) = text.split_once('/').ok_or(form)?;
    let count = count.parse().map_err(|_| form)?;
    let per = Seconds::from_text(time)?;
    let per_seconds = u32::try_from(per.ms / 1_000).map_err(|_| form)?;
    if per_seconds == 0 || per.ms % 1_000 > 0 {
        return Err(form.to_owned());
    }
    Ok(RateBody {
        count,
        per_seconds,
        burst: None,
    })
}

impl Limit {
    /// Runs the verb.
    pub(crate) fn run(self) -> Result<(), CliError> {
        match self.verb {
            Verb::Set(set) => self::set(*set),
            Verb::Ls(remote) => ls(&remote),
            Verb::Show(show) => self::show(&show),
            Verb::Rm(named) => remove(&named),
        }
    }
}

fn set(set: Set) -> Result<(), CliError> {
    let (client, output) = set.remote.open()?;
    let name = plain::line(&set.name).into_owned();
    let matches = MatchBody {
        queue: set.queue,
        handler: set.handler,
    };
    let body = LimitBody {
        matches: Some(matches).filter(|it| *it != MatchBody::default()),
        key: (!set.key.is_empty()).then_some(KeyBody::Several(set.key)),
        concurrency: set.concurrency,
        rate: set.rate.map(|rate| RateBody {
            burst: set.burst,
            ..rate
        }),
        units: set.units,
        when_full: set.when_full,
    };
    let answer = client
        .set_limit(&set.name, &body)
        .map_err(cannot(&format!("set the limit {name}")))?;
    output.print_item(&answer.json, &name, || {
        put_line(&format!("{name}: {}", answer.view.limit.allowed_in_words()))
    })?;
    output.hint(&format!("`host limit show {name}` shows its fullest keys"));
    Ok(())
}

fn ls(remote: &Remote) -> Result<(), CliError> {
    let (client, output) = remote.open()?;
    let limits = client.limits().map_err(cannot("list limits"))?.items;
    output.list(&limits, |it| &it.name, || table(&limits))?;
    output.hint(if limits.is_empty() {
        "there are no limits; `host limit set NAME --key /customer --concurrency 3` sets one"
    } else {
        "`host limit show NAME` shows the fullest keys of one"
    });
    Ok(())
}

fn table(limits: &[Item<LimitView>]) -> Rows {
    let mut rows = Rows::new(&[
        Column::Left("NAME"),
        Column::Left("JOBS"),
        Column::Left("KEY"),
        Column::Left("ALLOWED"),
        Column::Right("WAITING"),
    ]);
    for Item { view, .. } in limits {
        rows.row(vec![
            Cell::new(plain::line(&view.name)),
            Cell::new(plain::line(&view.limit.jobs_in_words())),
            Cell::new(plain::line(&view.limit.key_in_words())),
            Cell::new(plain::line(&view.limit.allowed_in_words())),
            Cell::new(human::count(view.waiting)),
        ]);
    }
    rows
}

fn show(show: &Show) -> Result<(), CliError> {
    let (client, output) = show.named.remote.open()?;
    let name = plain::line(&show.named.name);
    let doing = format!("show the limit {name}");
    let answer = client
        .limit(&show.named.name, show.keys)
        .map_err(cannot_find(&doing, LISTED))?;
    let view = &answer.view;
    output.print_item(&answer.json, &name, || {
        let mut rows = Rows::pairs();
        let lines = [
            ("jobs", view.limit.jobs_in_words()),
            ("key", view.limit.key_in_words()),
            ("allowed", view.limit.allowed_in_words()),
            ("when full", view.limit.when_full_in_words().to_owned()),
            ("from", view.source.clone()),
            ("waiting", human::count(view.waiting)),
        ];
        for (key, value) in lines.iter().filter(|(_, value)| !value.is_empty()) {
            rows.pair(key, &plain::line(value));
        }
        output.rows(rows)?;
        match view.keys.as_deref() {
            None => put_line("its keys are shown only to tokens with read_payload"),
            Some([]) => put_line("no key is in use"),
            Some(keys) => output.rows(key_table(keys)),
        }
    })
}

fn key_table(keys: &[LimitKeyView]) -> Rows {
    let mut rows = Rows::new(&[
        Column::Left("KEY"),
        Column::Right("WAITING"),
        Column::Right("AVAILABLE"),
        Column::Right("RUNNING"),
        Column::Left("HELD UNTIL"),
    ]);
    for key in keys {
        rows.row(vec![
            Cell::new(plain::line(&key.key)),
            Cell::new(human::count(key.waiting)),
            Cell::new(human::count(key.available.into())),
            Cell::new(human::count(key.running.into())),
            Cell::new(plain::line(key.held_until.as_deref().unwrap_or_default())),
        ]);
    }
    rows
}

fn remove(named: &LimitArgs) -> Result<(), CliError> {
    let (client, output) = named.remote.open()?;
    let name = plain::line(&named.name);
    let doing = format!("remove the limit {name}");
    let answer = client
        .remove_limit(&named.name)
        .map_err(cannot_find(&doing, LISTED))?;
    output.print_item(&answer.json, &name, || {
        put_line(&format!("{name} is removed"))
    })
}
