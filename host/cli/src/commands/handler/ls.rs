//! `host handler ls`: one line for each handler.

use clap::Args;
use host_api::client::Item;
use host_api::handler::HandlerView;
use host_console::error::{CliError, cannot};
use host_console::options::Remote;
use host_console::table::{Cell, Column, Rows};
use host_console::{human, plain};

use crate::complete;

/// List the handlers.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host handler ls --component basics
  host handler ls -o name")]
pub(super) struct Ls {
    /// Only handlers of this component
    #[arg(long)]
    #[arg(add = complete::components())]
    component: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

impl Ls {
    pub(super) fn run(self) -> Result<(), CliError> {
        let (client, output) = self.remote.open()?;
        let list = client.handlers().map_err(cannot("list handlers"))?;
        let mut handlers = list.items;
        if let Some(component) = &self.component {
            handlers.retain(|handler| handler.view.component == *component);
        }
        output.list(&handlers, |handler| &handler.name, || table(&handlers))?;
        output.hint(match (&self.component, handlers.is_empty()) {
            (None, true) => "no handlers; `host deploy FILE` deploys some",
            (Some(_), true) => "no handlers; `host component ls` lists the components",
            (_, false) => "`host handler show NAME` shows everything about one",
        });
        Ok(())
    }
}

fn table(handlers: &[Item<HandlerView>]) -> Rows {
    let mut rows = Rows::new(&[
        Column::Left("HANDLER"),
        Column::Left("COMPONENT"),
        Column::Right("REVISION"),
        Column::Right("MEMORY"),
        Column::Right("TIMEOUT"),
        Column::Right("GRANTS"),
        Column::Left("DESCRIPTION"),
    ]);
    for Item { view, .. } in handlers {
        let description = view.description.as_deref().unwrap_or_default();
        let first = description.lines().next().unwrap_or_default();
        rows.row(vec![
            Cell::new(plain::line(&view.name)),
            Cell::new(plain::line(&view.component)),
            Cell::new(view.revision),
            Cell::new(human::bytes(view.limits.memory_bytes)),
            Cell::new(human::took(view.limits.timeout_ms)),
            Cell::new(view.grants.lines().len()),
            Cell::new(plain::line(first)),
        ]);
    }
    rows
}
