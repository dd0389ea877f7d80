//! `host component ls`: each component with its current revision.

use host_api::client::Item;
use host_api::component::RevisionView;
use host_console::error::{CliError, cannot};
use host_console::human::ago;
use host_console::options::Remote;
use host_console::plain;
use host_console::table::{Cell, Column, Rows};
use host_core::time::Time;

use super::{names, short_digest};

/// Lists all components.
pub(super) fn run(remote: &Remote) -> Result<(), CliError> {
    let (client, output) = remote.open()?;
    let list = client.components().map_err(cannot("list components"))?;
    output.list(
        &list.items,
        |it| &it.component,
        || table(&list.items, list.now),
    )?;
    output.hint(if list.items.is_empty() {
        "no components; `host deploy FILE` deploys one"
    } else {
        "`host component show NAME` shows the revisions of one"
    });
    Ok(())
}

fn table(items: &[Item<RevisionView>], now: Option<Time>) -> Rows {
    let mut rows = Rows::new(&[
        Column::Left("COMPONENT"),
        Column::Right("REVISION"),
        Column::Right("AGE"),
        Column::Left("DIGEST"),
        Column::Left("HANDLERS"),
    ]);
    for Item { view: current, .. } in items {
        rows.row(vec![
            Cell::new(plain::line(&current.component)),
            Cell::new(current.revision),
            Cell::new(ago(now, Some(&current.deployed_at))),
            Cell::new(short_digest(&current.digest)),
            Cell::new(names(&current.handlers)),
        ]);
    }
    rows
}
