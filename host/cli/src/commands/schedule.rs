//! `host schedule`: jobs that are enqueued again and again.

use clap::{ArgGroup, Args, Subcommand};
use host_api::client::Item;
use host_api::new_job::NewJobBody;
use host_api::schedule::{
    BackfillBody, ComingView, Duration, FiringView, PatternsBody, ScheduleBody, ScheduleView,
    WhenBody,
};
use host_api::words::{choice, word_of};
use host_console::error::{CliError, Exit, cannot, cannot_find};
use host_console::options::Remote;
use host_console::output::put_line;
use host_console::table::{Cell, Column, Rows};
use host_console::{human, json, plain};
use host_core::seconds::Seconds;
use host_engine::schedule::{CatchUp, Overlap};

use crate::complete;

/// Set, list, pause, trigger and remove schedules.
#[derive(Debug, Args)]
pub(crate) struct Schedule {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Create or replace a schedule
    #[command(after_help = "\
Examples:
  host schedule set nightly report --cron '30 2 * * *' --time-zone Europe/Berlin
  host schedule set sync fetch_orders --every 10m --overlap queue_one --spread 2m
  host schedule set billing invoice --cron '0 6 1 * *' --params @billing.json --catch-up all --window 2d")]
    Set(Box<Set>),
    /// List the schedules
    #[command(after_help = "Example:\n  host schedule ls -o json")]
    Ls(Remote),
    /// Show a schedule and what became of its latest firings
    #[command(after_help = "Example:\n  host schedule show nightly")]
    Show(ScheduleArgs),
    /// Show the times at which a schedule will fire
    #[command(after_help = "Example:\n  host schedule next nightly --count 5")]
    Next(Next),
    /// Stop a schedule from firing until it is resumed
    #[command(after_help = "Example:\n  host schedule pause nightly")]
    Pause(ScheduleArgs),
    /// Let a paused schedule fire again; firings in between are not caught up
    #[command(after_help = "Example:\n  host schedule resume nightly")]
    Resume(ScheduleArgs),
    /// Enqueue the job of a schedule now
    #[command(after_help = "Example:\n  host schedule trigger nightly")]
    Trigger(ScheduleArgs),
    /// Enqueue a job for each nominal time of a schedule in a range, at most 1,000
    #[command(
        after_help = "Example:\n  host schedule backfill nightly --from 2026-05-01T00:00:00Z --until 2026-05-08T00:00:00Z"
    )]
    Backfill(Backfill),
    /// Remove a schedule; the jobs that it has enqueued stay
    #[command(after_help = "Example:\n  host schedule rm nightly")]
    Rm(ScheduleArgs),
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("times").required(true).args(["cron", "every"])))]
struct Set {
    /// The schedule's name
    #[arg(add = complete::schedules())]
    name: String,
    /// The handler to run
    #[arg(add = complete::handlers())]
    handler: String,
    /// A cron pattern: minute, hour, day, month, weekday, optionally with seconds in front (repeatable)
    #[arg(long, value_name = "PATTERN")]
    cron: Vec<String>,
    /// Fire at this interval
    #[arg(long, value_name = "DURATION", value_parser = human::parse_duration)]
    every: Option<Seconds>,
    /// Fire this much later than the multiples of the interval
    #[arg(long, value_name = "DURATION", value_parser = human::parse_duration, requires = "every")]
    phase: Option<Seconds>,
    /// The time zone of the patterns, such as Europe/Berlin [default: UTC]
    #[arg(long, value_name = "ZONE", conflicts_with = "every")]
    #[arg(add = complete::time_zones())]
    time_zone: Option<String>,
    /// The handler's params: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    params: Option<String>,
    /// The queue to put the jobs in
    #[arg(long)]
    #[arg(add = complete::queues())]
    queue: Option<String>,
    /// 0 starts first, 9 last
    #[arg(long, value_name = "0-9", value_parser = human::whole::<u8>(0, 9))]
    priority: Option<u8>,
    /// Make at most this many attempts
    #[arg(long, value_name = "N", value_parser = human::whole::<u32>(1, u32::MAX.into()))]
    max_attempts: Option<u32>,
    /// Let an attempt take at most this long
    #[arg(long, value_name = "DURATION", value_parser = human::parse_duration)]
    timeout: Option<Seconds>,
    #[arg(
        long,
        value_name = "CHOICE",
        value_parser = choice::<Overlap>,
        help = "While an earlier job has not ended: `skip`, `queue_one`, `queue_all`, `cancel` or `allow` [default: skip]"
    )]
    overlap: Option<Overlap>,
    /// What to catch up after an outage: `none`, `last` or `all` [default: last]
    #[arg(long, value_name = "CHOICE", value_parser = choice::<CatchUp>)]
    catch_up: Option<CatchUp>,
    /// How far back to catch up [default: 1h]
    #[arg(long, value_name = "DURATION", value_parser = human::parse_duration)]
    window: Option<Seconds>,
    /// Fire up to this much later, always equally for the same name
    #[arg(long, value_name = "DURATION", value_parser = human::parse_duration)]
    spread: Option<Seconds>,
    /// Do not fire before this time
    #[arg(long, value_name = "TIME", value_parser = human::parse_time)]
    from: Option<String>,
    /// Do not fire after this time
    #[arg(long, value_name = "TIME", value_parser = human::parse_time)]
    until: Option<String>,
    /// Set it paused
    #[arg(long)]
    paused: bool,
    /// A note for people
    #[arg(long)]
    note: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Args)]
struct ScheduleArgs {
    /// The schedule's name
    #[arg(add = complete::schedules())]
    name: String,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Args)]
struct Next {
    /// How many times to show
    #[arg(long, value_name = "N", default_value = "20", value_parser = human::whole::<u32>(1, 1_000))]
    count: u32,
    #[command(flatten)]
    named: ScheduleArgs,
}

#[derive(Debug, Args)]
struct Backfill {
    /// The first time
    #[arg(long, value_name = "TIME", value_parser = human::parse_time)]
    from: String,
    /// The last time
    #[arg(long, value_name = "TIME", value_parser = human::parse_time)]
    until: String,
    #[command(flatten)]
    named: ScheduleArgs,
}

/// What helps if the host does not know a schedule.
const LISTED: &str = "`host schedule ls` lists the schedules";

impl Schedule {
    /// Runs the verb.
    pub(crate) fn run(self) -> Result<(), CliError> {
        match self.verb {
            Verb::Set(set) => self::set(*set),
            Verb::Ls(remote) => ls(&remote),
            Verb::Show(named) => show(&named),
            Verb::Next(next) => self::next(&next),
            Verb::Pause(named) => pause(&named),
            Verb::Resume(named) => resume(&named),
            Verb::Trigger(named) => trigger(&named),
            Verb::Backfill(backfill) => self::backfill(&backfill),
            Verb::Rm(named) => remove(&named),
        }
    }
}

fn set(set: Set) -> Result<(), CliError> {
    let (client, output) = set.remote.open()?;
    let name = plain::line(&set.name).into_owned();
    let doing = format!("set the schedule {name}");
    let unread = |error| CliError::new(Exit::Failed, &doing, error);
    let params = set
        .params
        .as_deref()
        .map(|given| json::argument("--params", given));
    let job = NewJobBody {
        handler: set.handler,
        params: params.transpose()?,
        queue: set.queue,
        priority: set.priority.map(i64::from),
        max_attempts: set.max_attempts.map(i64::from),
        timeout_seconds: set.timeout,
        ..NewJobBody::default()
    };
    let body = ScheduleBody {
        when: WhenBody {
            cron: (!set.cron.is_empty()).then_some(PatternsBody::Several(set.cron)),
            every: set.every.map(Duration),
            phase: set.phase.map(Duration),
        },
        time_zone: set.time_zone,
        job: serde_json::value::to_raw_value(&job).map_err(unread)?,
        overlap: set.overlap,
        catch_up: set.catch_up,
        window: set.window.map(Duration),
        spread: set.spread.map(Duration),
        from: set.from,
        until: set.until,
        paused: set.paused,
        note: set.note,
    };
    let answer = client
        .set_schedule(&set.name, &body)
        .map_err(cannot(&doing))?;
    let fires_at = answer.view.fires_at.as_deref().map(plain::line);
    output.print_item(&answer.json, &name, || {
        put_line(&match &fires_at {
            Some(at) => format!("{name} fires at {at}"),
            None => format!("{name} is set, but does not fire"),
        })
    })?;
    output.hint(&format!("`host schedule next {name}` shows when it fires"));
    Ok(())
}

fn ls(remote: &Remote) -> Result<(), CliError> {
    let (client, output) = remote.open()?;
    let schedules = client.schedules().map_err(cannot("list schedules"))?.items;
    output.list(&schedules, |it| &it.name, || table(&schedules))?;
    output.hint(if schedules.is_empty() {
        "there are no schedules; `host schedule set NAME HANDLER --every 10m` sets one"
    } else {
        "`host schedule show NAME` shows one"
    });
    Ok(())
}

fn table(schedules: &[Item<ScheduleView>]) -> Rows {
    let mut rows = Rows::new(&[
        Column::Left("NAME"),
        Column::Left("WHEN"),
        Column::Left("FIRES AT"),
        Column::Right("FIRED"),
        Column::Right("SKIPPED"),
        Column::Right("MISSED"),
        Column::Right("FAILED"),
    ]);
    for Item { view, .. } in schedules {
        rows.row(vec![
            Cell::new(plain::line(&view.name)),
            Cell::new(plain::line(&view.schedule.when_in_words())),
            Cell::new(plain::line(&fires_at(view))),
            Cell::new(human::count(view.counts.fired)),
            Cell::new(human::count(view.counts.skipped)),
            Cell::new(human::count(view.counts.missed)),
            Cell::new(human::count(view.counts.failed)),
        ]);
    }
    rows
}

fn fires_at(view: &ScheduleView) -> String {
    match &view.fires_at {
        _ if view.schedule.paused => "paused".to_owned(),
        Some(at) => at.clone(),
        None => "never".to_owned(),
    }
}

fn show(named: &ScheduleArgs) -> Result<(), CliError> {
    let (client, output) = named.remote.open()?;
    let name = plain::line(&named.name);
    let doing = format!("show the schedule {name}");
    let answer = client
        .schedule(&named.name)
        .map_err(cannot_find(&doing, LISTED))?;
    let view = &answer.view;
    output.print_item(&answer.json, &name, || {
        let counts = view.counts;
        let overlap = view.schedule.overlap.map(word_of);
        let catch_up = view.schedule.catch_up.map(word_of);
        let window = view.schedule.window.map(|window| window.0.to_text());
        let catch_up = catch_up
            .zip(window)
            .map(|(which, window)| format!("{which} within {window}"));
        let mut rows = Rows::pairs();
        let lines = [
            ("when", view.schedule.when_in_words()),
            ("fires at", fires_at(view)),
            (
                "paused because",
                view.paused_because.clone().unwrap_or_default(),
            ),
            ("job", view.schedule.job.get().to_owned()),
            ("overlap", overlap.unwrap_or_default()),
            ("catch up", catch_up.unwrap_or_default()),
            ("from", view.source.clone()),
            (
                "firings",
                format!(
                    "{} fired, {} of them late; {} skipped, {} missed, {} failed, {} held",
                    counts.fired,
                    counts.late,
                    counts.skipped,
                    counts.missed,
                    counts.failed,
                    view.held
                ),
            ),
            ("note", view.schedule.note.clone().unwrap_or_default()),
        ];
        for (key, value) in lines.iter().filter(|(_, value)| !value.is_empty()) {
            rows.pair(key, &plain::line(value));
        }
        output.rows(rows)?;
        let firings = client
            .firings(&named.name)
            .map_err(cannot_find(&doing, LISTED))?
            .items;
        if firings.is_empty() {
            return put_line("it has not fired yet");
        }
        output.rows(firing_table(&firings))
    })?;
    output.hint(&format!("`host schedule next {name}` shows when it fires"));
    Ok(())
}

fn firing_table(firings: &[Item<FiringView>]) -> Rows {
    let mut rows = Rows::new(&[
        Column::Left("NOMINAL"),
        Column::Left("DECIDED"),
        Column::Left("FATE"),
        Column::Left("DETAIL"),
    ]);
    for Item { view, .. } in firings {
        let times = view.times.map(|times| format!("{times} times"));
        let more: Vec<String> = [view.job.clone(), times, view.reason.clone()]
            .into_iter()
            .flatten()
            .collect();
        rows.row(vec![
            Cell::new(plain::line(&view.nominal)),
            Cell::new(plain::line(&view.at)),
            Cell::new(plain::line(&view.fate)),
            Cell::new(plain::line(&more.join(": "))),
        ]);
    }
    rows
}

fn next(next: &Next) -> Result<(), CliError> {
    let (client, output) = next.named.remote.open()?;
    let doing = format!("show when {} fires", plain::line(&next.named.name));
    let coming = client
        .coming_firings(&next.named.name, next.count)
        .map_err(cannot_find(&doing, LISTED))?
        .items;
    let table = |items: &[Item<ComingView>]| {
        let mut rows = Rows::new(&[Column::Left("NOMINAL"), Column::Left("FIRES AT")]);
        for Item { view, .. } in items {
            rows.row(vec![
                Cell::new(plain::line(&view.nominal)),
                Cell::new(plain::line(&view.fires_at)),
            ]);
        }
        rows
    };
    output.list(&coming, |it| &it.nominal, || table(&coming))?;
    if coming.is_empty() {
        output.note("it is paused, or no longer fires");
    }
    Ok(())
}

fn pause(named: &ScheduleArgs) -> Result<(), CliError> {
    let (client, output) = named.remote.open()?;
    let name = plain::line(&named.name);
    let doing = format!("pause the schedule {name}");
    let answer = client
        .pause_schedule(&named.name)
        .map_err(cannot_find(&doing, LISTED))?;
    output.print_item(&answer.json, &name, || {
        put_line(&format!("{name} is paused"))
    })?;
    output.hint(&format!("`host schedule resume {name}` resumes it"));
    Ok(())
}

fn resume(named: &ScheduleArgs) -> Result<(), CliError> {
    let (client, output) = named.remote.open()?;
    let name = plain::line(&named.name);
    let doing = format!("resume the schedule {name}");
    let answer = client
        .resume_schedule(&named.name)
        .map_err(cannot_find(&doing, LISTED))?;
    let fires_at = fires_at(&answer.view);
    output.print_item(&answer.json, &name, || {
        put_line(&format!("{name} fires at {}", plain::line(&fires_at)))
    })
}

fn trigger(named: &ScheduleArgs) -> Result<(), CliError> {
    let (client, output) = named.remote.open()?;
    let name = plain::line(&named.name);
    let doing = format!("trigger the schedule {name}");
    let answer = client
        .trigger_schedule(&named.name)
        .map_err(cannot_find(&doing, LISTED))?;
    let jobs = answer.view.jobs.join("\n");
    output.print_item(&answer.json, &plain::line(&jobs), || {
        put_line(&plain::line(&jobs))
    })?;
    output.hint("`host job wait ID` waits for its result");
    Ok(())
}

fn backfill(backfill: &Backfill) -> Result<(), CliError> {
    let named = &backfill.named;
    let (client, output) = named.remote.open()?;
    let name = plain::line(&named.name);
    let doing = format!("backfill the schedule {name}");
    let body = BackfillBody {
        from: backfill.from.clone(),
        until: backfill.until.clone(),
    };
    let answer = client
        .backfill_schedule(&named.name, &body)
        .map_err(cannot_find(&doing, LISTED))?;
    output.print_item(&answer.json, &name, || {
        answer
            .view
            .jobs
            .iter()
            .try_for_each(|job| put_line(&plain::line(job)))
    })?;
    let jobs = human::counted(answer.view.jobs.len() as u64, "job");
    output.note(&format!("enqueued {jobs}"));
    Ok(())
}

fn remove(named: &ScheduleArgs) -> Result<(), CliError> {
    let (client, output) = named.remote.open()?;
    let name = plain::line(&named.name);
    let doing = format!("remove the schedule {name}");
    let answer = client
        .remove_schedule(&named.name)
        .map_err(cannot_find(&doing, LISTED))?;
    output.print_item(&answer.json, &name, || {
        put_line(&format!("{name} is removed"))
    })
}
