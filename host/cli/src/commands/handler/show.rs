//! `host handler show`: everything about one handler on one screen.

use std::time::Duration;

use clap::Args;
use host_console::client::segment;
use host_console::error::{CliError, Exit};
use host_console::options::Remote;
use host_console::output::{Output, put_section};
use host_console::table::Rows;
use host_console::{human, json, plain};

use super::{View, fuel, grant_lines};

/// Show one handler.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host handler show echo
  host handler show echo -o json | jq .params_schema")]
pub(super) struct Show {
    /// The handler's name
    name: String,
    #[command(flatten)]
    remote: Remote,
}

impl Show {
    pub(super) fn run(self) -> Result<(), CliError> {
        let (client, output) = self.remote.open()?;
        let doing = format!("show handler {}", plain::line(&self.name));
        let path = format!("/api/v1/handlers/{}", segment(&self.name));
        let answer = client.get(&doing, &path, Duration::ZERO);
        let answer = answer.map_err(|error| match error.exit() {
            Exit::NotFound => error.next("`host handler ls` lists the handlers"),
            _ => error,
        })?;
        let view: View = answer.read(&doing)?;
        let name = plain::line(&view.name);
        output.one(&answer.body, &name, || print(output, &view))?;
        output.hint(&format!(
            "`host job enqueue {name} --params JSON --wait` runs it"
        ));
        Ok(())
    }
}

fn print(output: Output, view: &View) -> Result<(), CliError> {
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
    let grants = grant_lines(&view.grants);
    if grants.is_empty() {
        rows.pair("grants", "none");
    }
    for grant in &grants {
        rows.pair("grant", grant);
    }
    output.rows(rows)?;
    if let Some(description) = view.description.as_deref().filter(|text| !text.is_empty()) {
        put_section("description", &plain::block(description))?;
    }
    for (title, schema) in [
        ("params schema", &view.params_schema),
        ("result schema", &view.result_schema),
    ] {
        if let Some(schema) = schema {
            put_section(title, &json::pretty(&json::harmless(schema.get())))?;
        }
    }
    Ok(())
}
