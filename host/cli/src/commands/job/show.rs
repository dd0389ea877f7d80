//! `host job show`: everything about one job on one screen.

use clap::Args;
use host_api::attempt::AttemptView;
use host_api::client::Item;
use host_console::error::{CliError, cannot};
use host_console::options::Remote;
use host_console::output::{Output, array, put_line, put_section};
use host_console::table::{Cell, Column, Rows};
use host_console::{human, json, plain};
use host_core::time::Time;

use super::{
    View, between, failure_name, failure_text, fetch, parse_id, progress_line, requests, short_id,
};
use crate::commands::node;
use crate::complete;

/// Show everything about a job.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host job show 01990f3c
  host job show 01990f3c -o json | jq .attempts")]
pub(super) struct Show {
    /// The job's id or a prefix of it
    #[arg(value_parser = parse_id)]
    #[arg(add = complete::jobs())]
    id: String,
    #[command(flatten)]
    remote: Remote,
}

impl Show {
    pub(super) fn run(self) -> Result<(), CliError> {
        let (client, output) = self.remote.open()?;
        let doing = format!("show job {}", plain::line(&self.id));
        let answer = fetch(&client, &doing, &self.id)?;
        let view = &answer.view;
        let attempts = client.attempts(&view.id).map_err(cannot(&doing))?.items;
        let document = json::with_member(&answer.json, "attempts", &array(&attempts));
        output.print_item(&document, &plain::line(&view.id), || {
            print(output, view, &attempts, answer.now)
        })?;
        output.hint(&next(view));
        Ok(())
    }
}

fn next(view: &View) -> String {
    let id = short_id(&view.id);
    match view.state.as_str() {
        "discarded" | "cancelled" if view.external_id.is_some() => {
            format!(
                "its orchestrator decides whether it runs again; `host job logs {id}` prints what it logged"
            )
        }
        "discarded" | "cancelled" => format!("`host job retry {id}` runs it again"),
        "completed" => format!("`host job logs {id}` prints what it logged"),
        _ => format!("`host job wait {id}` waits for its end, `host job cancel {id}` stops it"),
    }
}

fn print(
    output: Output,
    view: &View,
    attempts: &[Item<AttemptView>],
    now: Option<Time>,
) -> Result<(), CliError> {
    output.rows(header(view, attempts, now))?;
    if let Some(failure) = &view.failure {
        put_section("failure", &failure_text(failure))?;
    }
    if let Some(params) = &view.params {
        put_section("params", &host_api::pretty::json(params.get()))?;
    }
    if let Some(result) = &view.result {
        put_section("result", &host_api::pretty::json(result.get()))?;
    }
    if !view.artifacts.is_empty() {
        let lines = view.artifacts.iter().map(|it| {
            let kind = plain::line(&it.content_type);
            format!(
                "{}  {}  {kind}",
                plain::line(&it.name),
                human::bytes(it.bytes)
            )
        });
        put_section("artifacts", &lines.collect::<Vec<_>>().join("\n"))?;
    }
    if attempts.is_empty() {
        return Ok(());
    }
    put_line("")?;
    output.rows(attempt_rows(attempts, now))?;
    if let Some(rows) = requests::rows(attempts) {
        put_line("")?;
        output.rows(rows)?;
    }
    let reported = attempts.iter().filter_map(|it| worker_line(&it.view));
    let lines = requests::more(attempts).chain(reported);
    lines
        .collect::<Vec<_>>()
        .iter()
        .try_for_each(|line| put_line(line))
}

/// Returns what a foreign worker reports about the end of its attempt.
fn worker_line(attempt: &AttemptView) -> Option<String> {
    let worker = attempt.worker.as_ref()?;
    let size = |what: &str, bytes: Option<u64>| Some(format!("{what} {}", human::bytes(bytes?)));
    let known = [
        worker
            .name
            .as_deref()
            .map(|name| format!("its name is {}", plain::line(name))),
        worker
            .ended_at
            .as_deref()
            .map(|at| format!("it ended at {}", plain::line(at))),
        size("it read", worker.read_bytes),
        size("it wrote", worker.written_bytes),
    ];
    let facts: Vec<String> = known.into_iter().flatten().collect();
    Some(format!(
        "attempt {}: the worker reports: {}",
        attempt.number,
        facts.join(", ")
    ))
}

fn header(view: &View, attempts: &[Item<AttemptView>], now: Option<Time>) -> Rows {
    let mut rows = Rows::pairs();
    let mut pair = |key: &str, value: &str| {
        if !value.is_empty() {
            rows.pair(key, &plain::line(value));
        }
    };
    let instant = |at: &Option<String>| match at {
        Some(at) => human::instant(now, at),
        None => String::new(),
    };
    pair("job", &view.id);
    pair("handler", &view.handler);
    pair(
        "queue",
        &format!("{}, priority {}", view.queue, view.priority),
    );
    pair("state", &view.state);
    let node = view.node.as_ref().map(node::line);
    pair("node", &node.unwrap_or_default());
    let component = attempts
        .iter()
        .rev()
        .find_map(|it| component_line(&it.view));
    pair("component", &component.unwrap_or_default());
    pair("waits", view.waits_because.as_deref().unwrap_or_default());
    pair("attempt", &view.attempts());
    pair(
        "progress",
        &view
            .progress
            .as_ref()
            .map(progress_line)
            .unwrap_or_default(),
    );
    pair("enqueued", &human::instant(now, &view.enqueued_at));
    if !view.is_terminal() {
        pair("starts", &instant(&view.run_at));
    }
    pair("deadline", &instant(&view.deadline));
    pair("cancel asked", &instant(&view.cancel_requested_at));
    pair("finished", &instant(&view.finished_at));
    pair("kept until", &instant(&view.kept_until));
    let (waited, ran) = view.times();
    pair("waited", &waited);
    pair("ran", &ran);
    pair("via", &view.wire);
    pair(
        "external id",
        view.external_id.as_deref().unwrap_or_default(),
    );
    pair("unique key", view.unique_key.as_deref().unwrap_or_default());
    let depends_on = view.depends_on.iter().flatten().map(ToString::to_string);
    pair("depends on", &depends_on.collect::<Vec<_>>().join(" "));
    for (name, job) in view.inputs.iter().flatten() {
        pair("input", &format!("{name} of {job}"));
    }
    for (name, from) in view.files.iter().flatten() {
        pair("file", &format!("{name} of {from}"));
    }
    for notify in view.notify.iter().flatten() {
        pair(
            "notifies",
            &format!("{} of {}", notify.url, notify.events.join(", ")),
        );
    }
    pair("withheld", &view.withheld.join(", "));
    pair("batch", view.batch.as_deref().unwrap_or_default());
    for (key, value) in view.attributes.iter().flatten() {
        pair("attribute", &format!("{key}={value}"));
    }
    rows
}

/// Returns the component that an attempt was executed with, and which revision of it.
fn component_line(attempt: &AttemptView) -> Option<String> {
    let component = attempt.component.as_ref()?;
    Some(match attempt.revision {
        Some(revision) => format!("{component}, revision {revision}"),
        None => component.clone(),
    })
}

fn revision(attempt: &AttemptView) -> String {
    match (&attempt.component, attempt.revision) {
        (Some(component), Some(revision)) => format!("{} {revision}", plain::line(component)),
        _ => String::new(),
    }
}

fn attempt_rows(attempts: &[Item<AttemptView>], now: Option<Time>) -> Rows {
    let mut rows = Rows::new(&[
        Column::Right("ATTEMPT"),
        Column::Left("OUTCOME"),
        Column::Left("EXECUTOR"),
        Column::Left("REVISION"),
        Column::Right("AGE"),
        Column::Right("RAN"),
        Column::Right("CPU"),
        Column::Right("FUEL"),
        Column::Right("PEAK MEMORY"),
        Column::Left("FAILURE"),
    ]);
    for Item { view: attempt, .. } in attempts {
        rows.row(vec![
            Cell::new(attempt.number),
            Cell::new(plain::line(&attempt.outcome)),
            Cell::new(plain::line(&attempt.executor)),
            Cell::new(revision(attempt)),
            Cell::new(human::ago(now, Some(&attempt.started_at))),
            Cell::new(between(
                Some(&attempt.started_at),
                attempt.finished_at.as_deref(),
            )),
            Cell::new(format!("{:.1} ms", attempt.cpu_ms)),
            Cell::new(human::count(attempt.fuel)),
            Cell::new(human::bytes(attempt.peak_memory_bytes)),
            Cell::new(
                attempt
                    .failure
                    .as_ref()
                    .map(failure_name)
                    .unwrap_or_default(),
            ),
        ]);
    }
    rows
}
