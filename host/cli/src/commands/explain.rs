//! `host explain`: says what an error code means and what to do next.

use clap::Args;
use host_api::client::Item;
use host_console::error::{CliError, Exit};
use host_console::options::OutputOptions;
use host_console::output::{Output, put_line};
use host_console::plain;
use host_console::table::Rows;
use host_server::api::problem::{self, Explanation, wires, wires::WireCode};
use serde::Serialize;

/// Explain an error code and what to do about it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host explain timed_out
  host explain E_FIELD_RANGE
  host explain fuel_exhausted -o json")]
pub(crate) struct Explain {
    /// A code of an error, of a failed attempt or of a metric [default: list all codes]
    code: Option<String>,
    #[command(flatten)]
    shown: OutputOptions,
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
    /// Another meaning of the code.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    also: Vec<View>,
}

impl Explain {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), CliError> {
        let output = self.shown.open();
        let Some(code) = &self.code else {
            return list(output);
        };
        let mut meanings = problem::explain(code)
            .map(View::from)
            .chain(wires::explain(code).map(View::from));
        let Some(mut view) = meanings.next() else {
            let doing = format!("explain {}", plain::line(code));
            let error = CliError::new(Exit::NotFound, doing, "no such code exists");
            return Err(error.next("`host explain` lists all codes"));
        };
        view.also = meanings.collect();
        output.print_item(&json(&view)?, view.code, || {
            view.print()?;
            view.also.iter().try_for_each(|also| {
                put_line("")?;
                also.print()
            })
        })
    }
}

impl View {
    fn print(&self) -> Result<(), CliError> {
        put_line(&self.heading())?;
        put_line(&format!("  {}", self.explanation))?;
        put_line(&format!("  What to do: {}", self.next))
    }

    /// Returns the title and where the code is met.
    fn heading(&self) -> String {
        match self.status {
            Some(status) => format!("{} (HTTP {status})", self.title),
            None if self.wires.is_empty() => format!("{} (failure of an attempt)", self.title),
            None => self.title.to_owned(),
        }
    }
}

fn json(view: &View) -> Result<String, CliError> {
    serde_json::to_string(view).map_err(|error| CliError::new(Exit::Failed, "write JSON", error))
}

/// Prints all codes.
fn list(output: Output) -> Result<(), CliError> {
    let mut views: Vec<View> = problem::explanations().map(View::from).collect();
    views.extend(wires::list().map(View::from));
    let items: Vec<_> = views
        .into_iter()
        .map(Item::new)
        .collect::<Result<_, _>>()
        .map_err(|error| CliError::new(Exit::Failed, "write JSON", error))?;
    output.list(
        &items,
        |view| view.code,
        || {
            let mut rows = Rows::pairs();
            for Item { view, .. } in &items {
                let title = match view.wires.as_slice() {
                    [] => view.title.to_owned(),
                    wires => format!("{}: {}", view.title, wires.join(", ")),
                };
                rows.pair(view.code, &title);
            }
            rows
        },
    )
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
            also: Vec::new(),
        }
    }
}

impl From<WireCode> for View {
    fn from(known: WireCode) -> Self {
        let meanings = known
            .on
            .iter()
            .map(|(wire, meaning)| format!("{wire}: {meaning}"));
        Self {
            code: known.code,
            wires: known.on.iter().map(|(wire, _)| *wire).collect(),
            status: None,
            title: wires::TITLE,
            explanation: meanings.collect::<Vec<_>>().join(" "),
            next: wires::NEXT,
            also: Vec::new(),
        }
    }
}
