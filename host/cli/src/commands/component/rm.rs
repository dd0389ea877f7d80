//! `host component rm`: removes a component that no unfinished job needs.

use host_console::error::{CliError, cannot_find};
use host_console::output::put_line;
use host_console::plain;

use super::{ComponentArgs, LISTED};

/// Removes one component.
pub(super) fn run(named: &ComponentArgs) -> Result<(), CliError> {
    let (client, output) = named.remote.open()?;
    let name = plain::line(&named.name);
    let doing = format!("remove component {name}");
    let answer = client
        .remove_component(&named.name)
        .map_err(cannot_find(&doing, LISTED))?;
    output.print_item(&answer.json, &name, || {
        put_line(&format!("{name} is removed"))
    })
}
