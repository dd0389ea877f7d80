//! `host explain`: says what an error code means and what to do next.

use clap::Args;
use host_console::error::{CliError, Exit};
use host_console::options::Shown;
use host_console::output::{Output, put_line};
use host_console::plain;
use host_console::table::Rows;
use host_server::api::problem::{self, Explanation, wires, wires::WireCode};
use serde::Serialize;
use serde_json::value::RawValue;

/// Say what an error code means and what to do next.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host explain handler_not_found
  host explain E_FIELD_RANGE
  host explain fuel_exhausted -o json")]
pub(crate) struct Explain {
    /// A code of an error, of a failed attempt or of a metric [default: list all codes]
    code: Option<String>,
    #[command(flatten)]
    shown: Shown,
}

#[derive(Serialize)]
struct View {
    code: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    wires: Vec<&'static str>,
    status: Option<u16>,
    title: &'static str,
    explanation: String,
    next: &'static str,
}

impl Explain {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), CliError> {
        let output = self.shown.open();
        let Some(code) = &self.code else {
            return list(output);
        };
        let view = problem::explain(code).map(View::from);
        let view = view.or_else(|| wires::explain(code).map(View::from));
        let view = view.ok_or_else(|| {
            let doing = format!("explain {}", plain::line(code));
            let error = CliError::new(Exit::NotFound, doing, "no such code exists");
            error.next("`host explain` lists all codes")
        })?;
        output.one(&json(&view)?, view.code, || {
            let status = view.status.map(|status| format!(" (HTTP {status})"));
            put_line(&format!("{}{}", view.title, status.unwrap_or_default()))?;
            put_line(&format!("  {}", view.explanation))?;
            put_line(&format!("  What to do: {}", view.next))
        })
    }
}

fn json(view: &View) -> Result<String, CliError> {
    serde_json::to_string(view).map_err(|error| CliError::new(Exit::Failed, "write JSON", error))
}

/// Prints all codes.
fn list(output: Output) -> Result<(), CliError> {
    let mut views: Vec<View> = problem::all().map(View::from).collect();
    views.extend(wires::all().map(View::from));
    let raw = |view| {
        RawValue::from_string(json(view)?)
            .map_err(|error| CliError::new(Exit::Failed, "write JSON", error))
    };
    let documents: Vec<_> = views.iter().map(raw).collect::<Result<_, _>>()?;
    let name = |index: usize| views.get(index).map_or("", |view| view.code).to_owned();
    output.list(&documents, name, || {
        let mut rows = Rows::pairs();
        for view in &views {
            let title = match view.wires.as_slice() {
                [] => view.title.to_owned(),
                wires => format!("{}: {}", view.title, wires.join(", ")),
            };
            rows.pair(view.code, &title);
        }
        rows
    })
}

impl From<&Explanation> for View {
    fn from(known: &Explanation) -> Self {
        Self {
            code: known.code,
            wires: Vec::new(),
            status: known.status,
            title: known.title,
            explanation: known.explanation.to_owned(),
            next: known.next,
        }
    }
}

impl From<WireCode> for View {
    fn from(known: WireCode) -> Self {
        let meanings = known.on.iter();
        let meanings = meanings.map(|(wire, meaning)| format!("{wire}: {meaning}"));
        Self {
            code: known.code,
            wires: known.on.iter().map(|(wire, _)| *wire).collect(),
            status: None,
            title: wires::TITLE,
            explanation: meanings.collect::<Vec<_>>().join(" "),
            next: wires::NEXT,
        }
    }
}
