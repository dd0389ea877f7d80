//! `host handler show`: everything about one handler on one screen.

use clap::Args;
use host_api::handler::{CostView, HandlerView, RevisionCostView, SpreadView};
use host_console::error::{CliError, cannot_find};
use host_console::options::Remote;
use host_console::output::{Output, put_line, put_section};
use host_console::table::{Cell, Column, Rows};
use host_console::{human, plain};

use super::fuel;
use crate::complete;

/// Show one handler.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host handler show echo
  host handler show echo -o json | jq .params_schema")]
pub(super) struct Show {
    /// The handler's name
    #[arg(add = complete::handlers())]
    name: String,
    #[command(flatten)]
    remote: Remote,
}

impl Show {
    pub(super) fn run(self) -> Result<(), CliError> {
        let (client, output) = self.remote.open()?;
        let doing = format!("show handler {}", plain::line(&self.name));
        let next = "`host handler ls` lists the handlers";
        let answer = client
            .handler(&self.name)
            .map_err(cannot_find(&doing, next))?;
        let name = plain::line(&answer.view.name);
        output.print_item(&answer.json, &name, || print(output, &answer.view))?;
        output.hint(&format!(
            "`host job enqueue {name} --params JSON --wait` runs it"
        ));
        Ok(())
    }
}

fn print(output: Output, view: &HandlerView) -> Result<(), CliError> {
    let limits = &view.limits;
    let mut rows = Rows::pairs();
    rows.pair("handler", &plain::line(&view.name));
    let component = plain::line(&view.component);
    rows.pair(
        "component",
        &format!("{component}, revision {}", view.revision),
    );
    rows.pair("memory", &human::bytes(limits.memory_bytes));
    rows.pair("timeout", &human::took(limits.timeout_ms));
    rows.pair("cancel grace", &human::took(limits.grace_ms));
    rows.pair("fuel", &fuel(limits));
    rows.pair("largest result", &human::bytes(limits.result_bytes_max));
    rows.pair("kept log", &human::bytes(limits.log_bytes_max));
    rows.pair("max attempts", &human::count(view.max_attempts.into()));
    let (base, max) = (view.backoff.base_ms, view.backoff.max_ms);
    let doubling = format!("{}, doubling to {}", human::took(base), human::took(max));
    rows.pair("backoff", &doubling);
    let kept = [
        ("jobs kept", view.retention_seconds),
        ("discarded kept", view.retention_discarded_seconds),
    ];
    for (what, seconds) in kept {
        if let Some(seconds) = seconds {
            rows.pair(what, &human::took(seconds.ms));
        }
    }
    let grants = view.grants.lines();
    if grants.is_empty() {
        rows.pair("grants", "none");
    }
    for grant in &grants {
        rows.pair("grant", &plain::line(grant));
    }
    output.rows(rows)?;
    if !view.cost.is_empty() {
        put_line("\ncost of an attempt: median, 99th percentile")?;
        output.rows(costs(&view.cost))?;
    }
    if let Some(description) = view.description.as_deref().filter(|text| !text.is_empty()) {
        put_section("description", &plain::block(description))?;
    }
    for (title, schema) in [
        ("params schema", &view.params_schema),
        ("result schema", &view.result_schema),
    ] {
        if let Some(schema) = schema {
            put_section(title, &host_api::pretty::json(schema.get()))?;
        }
    }
    Ok(())
}

fn costs(revisions: &[RevisionCostView]) -> Rows {
    let mut rows = Rows::new(&[
        Column::Left("REVISION"),
        Column::Left("LAST"),
        Column::Right("RUNS"),
        Column::Right("FAILED"),
        Column::Right("TIME"),
        Column::Right("CPU"),
        Column::Right("FUEL"),
        Column::Right("MEMORY"),
    ]);
    for revision in revisions {
        let name = format!("{} {}", plain::line(&revision.component), revision.revision);
        let hour = revision.last_hour.iter().map(|cost| ("hour", cost));
        for (last, cost) in hour.chain([("day", &revision.last_day)]) {
            rows.row(cells(&name, last, cost));
        }
    }
    rows
}

fn cells(name: &str, last: &str, cost: &CostView) -> Vec<Cell> {
    let both = |spread: &SpreadView, show: fn(u64) -> String| {
        Cell::new(format!("{}, {}", show(spread.p50), show(spread.p99)))
    };
    vec![
        Cell::new(name),
        Cell::new(last),
        Cell::new(human::count(cost.runs)),
        Cell::new(human::count(cost.failures)),
        both(&cost.ran_ms, human::took),
        both(&cost.cpu_us, human::took_us),
        both(&cost.fuel, human::count),
        both(&cost.peak_memory_bytes, human::bytes),
    ]
}
