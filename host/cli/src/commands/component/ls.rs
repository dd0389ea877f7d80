//! `host component ls`: each component with its current revision.

use host_console::error::CliError;
use host_console::human::ago;
use host_console::options::Remote;
use host_console::table::{Cell, Column, Rows};
use host_console::{pages, plain};
use host_core::time::Time;
use serde::Deserialize;

use super::{RevisionView, names, short_digest};

/// An entry of the list.
#[derive(Deserialize)]
struct Entry {
    component: String,
    #[serde(flatten)]
    current: RevisionView,
}

/// Lists all components.
pub(super) fn run(remote: &Remote) -> Result<(), CliError> {
    let (client, output) = remote.open()?;
    let list = pages::all::<Entry>(&client, "list components", "/api/v1/components")?;
    let name = |index: usize| {
        let name = list.views.get(index);
        let name = name.map(|entry| plain::line(&entry.component));
        name.unwrap_or_default().into_owned()
    };
    output.list(&list.items, name, || table(&list.views, list.now))?;
    output.hint(if list.views.is_empty() {
        "no components; `host deploy FILE` deploys one"
    } else {
        "`host component show NAME` shows the revisions of one"
    });
    Ok(())
}

fn table(entries: &[Entry], now: Option<Time>) -> Rows {
    let mut rows = Rows::new(&[
        Column::Left("COMPONENT"),
        Column::Right("REVISION"),
        Column::Right("AGE"),
        Column::Left("DIGEST"),
        Column::Left("HANDLERS"),
    ]);
    for Entry { component, current } in entries {
        rows.row(vec![
            Cell::new(plain::line(component)),
            Cell::new(current.revision),
            Cell::new(ago(now, current.deployed_at.as_deref())),
            Cell::new(short_digest(&current.digest)),
            Cell::new(names(&current.handlers)),
        ]);
    }
    rows
}
