//! `host handler ls`: one line for each handler.

use clap::Args;
use host_console::error::CliError;
use host_console::options::Remote;
use host_console::pages::{self, Listing};
use host_console::table::{Cell, Column, Rows};
use host_console::{human, plain};

use super::{View, grant_lines};

/// List the handlers.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host handler ls --component basics
  host handler ls -o name")]
pub(super) struct Ls {
    /// Only handlers of this component
    #[arg(long)]
    component: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

impl Ls {
    pub(super) fn run(self) -> Result<(), CliError> {
        let (client, output) = self.remote.open()?;
        let mut list: Listing<View> = pages::all(&client, "list handlers", "/api/v1/handlers")?;
        if let Some(component) = &self.component {
            list.retain(|view| view.component == *component);
        }
        let name = |index: usize| {
            let name = list.views.get(index).map(|view| plain::line(&view.name));
            name.unwrap_or_default().into_owned()
        };
        output.list(&list.items, name, || table(&list.views))?;
        output.hint(match (&self.component, list.views.is_empty()) {
            (None, true) => "no handlers; `host deploy FILE` deploys some",
            (Some(_), true) => "no handlers; `host component ls` lists the components",
            (_, false) => "`host handler show NAME` shows everything about one",
        });
        Ok(())
    }
}

fn table(views: &[View]) -> Rows {
    let mut rows = Rows::new(&[
        Column::Left("HANDLER"),
        Column::Left("COMPONENT"),
        Column::Right("REVISION"),
        Column::Right("MEMORY"),
        Column::Right("TIMEOUT"),
        Column::Right("GRANTS"),
        Column::Left("DESCRIPTION"),
    ]);
    for view in views {
        let description = view.description.as_deref().unwrap_or_default();
        let first = description.lines().next().unwrap_or_default();
        rows.row(vec![
            Cell::new(plain::line(&view.name)),
            Cell::new(plain::line(&view.component)),
            Cell::new(view.revision),
            Cell::new(human::bytes(view.limits.memory_bytes)),
            Cell::new(human::took(view.limits.timeout_ms)),
            Cell::new(grant_lines(&view.grants).len()),
            Cell::new(plain::line(first)),
        ]);
    }
    rows
}
