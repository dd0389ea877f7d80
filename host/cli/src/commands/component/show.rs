//! `host component show`: the revisions of a component, the newest first, and the manifest of the
//! current one as TOML.

use host_api::component::{ComponentView, KeptView};
use host_console::error::{CliError, Exit};
use host_console::output::{Output, put_line, put_section};
use host_console::table::{Cell, Color, Column, Rows};
use host_console::{human, plain};
use host_core::time::Time;
use host_engine::component::Manifest;

use super::{ComponentArgs, fetch, names, short_digest};

/// Shows one component.
pub(super) fn run(named: &ComponentArgs) -> Result<(), CliError> {
    let (client, output) = named.remote.open()?;
    let doing = format!("show component {}", plain::line(&named.name));
    let answer = fetch(&client, &doing, &named.name)?;
    let view = &answer.view;
    let name = plain::line(&view.component);
    output.print_item(&answer.json, &name, || {
        print(output, &doing, view, answer.now)
    })?;
    output.hint(&if view.revisions.len() > 1 {
        format!("`host component rollback {name} REVISION` goes to another revision")
    } else {
        format!("`host handler ls --component {name}` lists its handlers")
    });
    Ok(())
}

fn print(
    output: Output,
    doing: &str,
    view: &ComponentView,
    now: Option<Time>,
) -> Result<(), CliError> {
    let current = view
        .revisions
        .iter()
        .find(|kept| kept.revision.revision == view.current);
    let mut rows = Rows::pairs();
    rows.pair("component", &plain::line(&view.component));
    rows.pair("revision", &view.current.to_string());
    if let Some(KeptView { revision, .. }) = current {
        rows.pair("digest", &plain::line(&revision.digest));
        let deployed = human::instant(now, &revision.deployed_at);
        rows.pair("deployed", &plain::line(&deployed));
        if let Some(key) = &revision.signed_by {
            rows.pair("signed by", &plain::line(key));
        }
        rows.pair("handlers", &names(&revision.handlers));
    }
    output.rows(rows)?;
    if let Some(text) = current
        .map(|current| manifest(doing, current))
        .transpose()?
        && !text.is_empty()
    {
        put_section("manifest", &plain::block(&text))?;
    }
    put_line("")?;
    output.rows(history(view, now))?;
    if is_shown(view) {
        put_line("")?;
        output.rows(nodes(view))?;
    }
    Ok(())
}

/// Returns whether the nodes say something: there are several, or one cannot run the component.
fn is_shown(view: &ComponentView) -> bool {
    view.nodes.len() > 1 || view.nodes.iter().any(|node| node.component != "ready")
}

fn nodes(view: &ComponentView) -> Rows {
    let mut rows = Rows::new(&[
        Column::Left("NODE"),
        Column::Left("NAME"),
        Column::Left("STATE"),
        Column::Left("COMPONENT"),
        Column::Left("REASON"),
    ]);
    for node in &view.nodes {
        let component = Cell::new(plain::line(&node.component));
        rows.row(vec![
            Cell::new(plain::line(&node.id)),
            Cell::new(plain::line(node.name.as_deref().unwrap_or_default())),
            Cell::new(plain::line(&node.state)),
            match node.component.as_str() {
                "ready" => component.fg(Color::Green),
                "failed" => component.fg(Color::Red),
                _ => component,
            },
            Cell::new(plain::line(node.reason.as_deref().unwrap_or_default())),
        ]);
    }
    rows
}

fn history(view: &ComponentView, now: Option<Time>) -> Rows {
    let mut rows = Rows::new(&[
        Column::Right("REVISION"),
        Column::Left("STATE"),
        Column::Right("AGE"),
        Column::Left("BY"),
        Column::Left("LABEL"),
        Column::Left("DIGEST"),
        Column::Right("HANDLERS"),
        Column::Left("NOTE"),
    ]);
    let mut revisions: Vec<_> = view.revisions.iter().map(|kept| &kept.revision).collect();
    revisions.sort_unstable_by_key(|revision| std::cmp::Reverse(revision.revision));
    for revision in revisions {
        let state = if revision.revision == view.current {
            Cell::new("current").fg(Color::Green)
        } else {
            Cell::new("kept")
        };
        rows.row(vec![
            Cell::new(revision.revision),
            state,
            Cell::new(human::ago(now, Some(&revision.deployed_at))),
            Cell::new(plain::line(&revision.deployed_by)),
            Cell::new(plain::line(revision.label.as_deref().unwrap_or_default())),
            Cell::new(short_digest(&revision.digest)),
            Cell::new(revision.handlers.len()),
            Cell::new(plain::line(revision.note.as_deref().unwrap_or_default())),
        ]);
    }
    rows
}

/// Writes a manifest as TOML, empty if it has no keys.
fn manifest(doing: &str, kept: &KeptView) -> Result<String, CliError> {
    if kept.manifest == Manifest::default() {
        return Ok(String::new());
    }
    toml::to_string(&kept.manifest).map_err(|error| CliError::new(Exit::Failed, doing, error))
}
