//! `host component rm`: removes a component that no unfinished job needs.

use host_console::error::{CliError, Exit};
use host_console::output::put_line;
use host_console::plain;
use serde::Serialize;

use super::{Named, path, unknown};

/// What is printed as JSON, since the API answers without a document.
#[derive(Serialize)]
struct Removed<'a> {
    component: &'a str,
    removed: bool,
}

/// Removes one component.
pub(super) fn run(named: &Named) -> Result<(), CliError> {
    let (client, output) = named.remote.open()?;
    let name = plain::line(&named.name);
    let doing = format!("remove component {name}");
    client.delete(&doing, &path(&named.name)).map_err(unknown)?;
    let removed = Removed {
        component: &named.name,
        removed: true,
    };
    let document = serde_json::to_string(&removed)
        .map_err(|error| CliError::new(Exit::Failed, &doing, error))?;
    output.one(&document, &name, || put_line(&format!("{name} is removed")))
}
