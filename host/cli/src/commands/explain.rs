//! `host explain`: says what a code of a refusal or a failure means and what to do about it.

use clap::Args;
use host_server::api::problem::{self, Explanation};
use serde::Serialize;

use crate::args::Shown;
use crate::error::{CliError, Exit};
use crate::output::{Rows, put_line};
use crate::plain;

/// Say what an error code means and what to do next.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host explain handler_not_found
  host explain fuel_exhausted -o json")]
pub(crate) struct Explain {
    /// The code, as it stands in a refusal or in the failure of an attempt; all of them without it
    code: Option<String>,
    #[command(flatten)]
    shown: Shown,
}

#[derive(Serialize)]
struct View {
    code: &'static str,
    status: Option<u16>,
    title: &'static str,
    explanation: &'static str,
    next: &'static str,
}

impl Explain {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), CliError> {
        let output = self.shown.open();
        let Some(code) = &self.code else {
            let mut rows = Rows::pairs();
            for known in problem::all() {
                rows.pair(known.code, known.title);
            }
            return output.rows(rows);
        };
        let known = problem::explain(code).ok_or_else(|| {
            let doing = format!("explain {}", plain::line(code));
            let error = CliError::new(Exit::NotFound, doing, "there is no such code");
            error.next("`host explain` lists all codes")
        })?;
        let view = View::from(known);
        let document = serde_json::to_string(&view)
            .map_err(|error| CliError::new(Exit::Failed, "write JSON", error))?;
        output.one(&document, known.code, || {
            let status = known.status.map(|status| format!(" (HTTP {status})"));
            put_line(&format!("{}{}", known.title, status.unwrap_or_default()))?;
            put_line(&format!("  {}", known.explanation))?;
            put_line(&format!("  What to do: {}", known.next))
        })
    }
}

impl From<&Explanation> for View {
    fn from(known: &Explanation) -> Self {
        Self {
            code: known.code,
            status: known.status,
            title: known.title,
            explanation: known.explanation,
            next: known.next,
        }
    }
}
