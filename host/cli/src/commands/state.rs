//! `host state`: the state that handlers keep.

use std::io::{IsTerminal as _, Read as _, Write as _};

use clap::{ArgGroup, Args, Subcommand};
use host_api::client::Item;
use host_api::state::{StateKeyView, StateSpaceView};
use host_console::error::{CliError, Exit, cannot, cannot_find};
use host_console::options::Remote;
use host_console::output::{put_line, put_with};
use host_console::table::{Cell, Column, Rows};
use host_console::{human, plain};
use host_core::state::VALUE_BYTES_MAX;

use crate::complete;

/// List, show, write and remove the state that handlers keep.
#[derive(Debug, Args)]
pub(crate) struct State {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the spaces of state, or the keys of one
    #[command(
        after_help = "Examples:\n  host state ls\n  host state ls handler:import-orders --prefix page/"
    )]
    Ls(Ls),
    /// Print the value of a key
    #[command(after_help = "Example:\n  host state get handler:import-orders cursor")]
    Get(Get),
    /// Write a key
    #[command(
        after_help = "Examples:\n  host state set handler:import-orders cursor 17\n  \
                      host state set shared:rates eur - < rates.json"
    )]
    Set(Set),
    /// Remove one key, or several
    #[command(
        after_help = "Examples:\n  host state rm handler:import-orders cursor\n  \
                      host state rm handler:import-orders --all"
    )]
    Rm(Rm),
}

#[derive(Debug, Args)]
struct Ls {
    /// The space: `handler:NAME` or `shared:NAME`; all spaces without it
    #[arg(add = complete::spaces())]
    space: Option<String>,
    /// Only keys that start with this
    #[arg(long, value_name = "TEXT", requires = "space")]
    prefix: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Args)]
struct Get {
    /// The space: `handler:NAME` or `shared:NAME`
    #[arg(add = complete::spaces())]
    space: String,
    /// The key
    key: String,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Args)]
struct Set {
    /// The space: `handler:NAME` or `shared:NAME`
    #[arg(add = complete::spaces())]
    space: String,
    /// The key
    key: String,
    /// The value; `-` reads standard input
    value: String,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("which").required(true).args(["key", "prefix", "all"])))]
#[command(override_usage = "host state rm [OPTIONS] <SPACE> <KEY|--prefix <TEXT>|--all>")]
struct Rm {
    /// The space: `handler:NAME` or `shared:NAME`
    #[arg(add = complete::spaces())]
    space: String,
    /// The key
    key: Option<String>,
    /// Remove all keys that start with this
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,
    /// Remove all keys of the space
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    remote: Remote,
}

/// The hint for an unknown space or key.
const LISTED: &str = "`host state ls` lists the spaces, `host state ls SPACE` the keys of one";

impl State {
    /// Runs the verb.
    pub(crate) fn run(self) -> Result<(), CliError> {
        match self.verb {
            Verb::Ls(ls) => match &ls.space {
                None => spaces(&ls.remote),
                Some(space) => keys(space, &ls),
            },
            Verb::Get(get) => show(&get),
            Verb::Set(set) => write(&set),
            Verb::Rm(rm) => remove(&rm),
        }
    }
}

fn spaces(remote: &Remote) -> Result<(), CliError> {
    let (client, output) = remote.open()?;
    let spaces = client
        .state_spaces()
        .map_err(cannot("list the spaces of state"))?
        .items;
    output.list(&spaces, |it| &it.space, || space_table(&spaces))?;
    output.hint(if spaces.is_empty() {
        "no handler keeps state; `[handlers.NAME.state]` in a manifest allows it"
    } else {
        "`host state ls SPACE` lists the keys of one"
    });
    Ok(())
}

fn space_table(spaces: &[Item<StateSpaceView>]) -> Rows {
    let mut rows = Rows::new(&[
        Column::Left("SPACE"),
        Column::Right("KEYS"),
        Column::Right("SIZE"),
    ]);
    for Item { view, .. } in spaces {
        rows.row(vec![
            Cell::new(plain::line(&view.space)),
            Cell::new(human::count(view.keys)),
            Cell::new(human::bytes(view.bytes)),
        ]);
    }
    rows
}

fn keys(space: &str, ls: &Ls) -> Result<(), CliError> {
    let (client, output) = ls.remote.open()?;
    let doing = format!("list the state {}", plain::line(space));
    let keys = client
        .state_keys(space, ls.prefix.as_deref())
        .map_err(cannot_find(&doing, LISTED))?
        .items;
    output.list(&keys, |it| &it.key, || key_table(&keys))?;
    output.hint(if keys.is_empty() {
        "it has no such keys; `host state ls` lists the spaces"
    } else {
        "`host state get SPACE KEY` prints a value"
    });
    Ok(())
}

fn key_table(keys: &[Item<StateKeyView>]) -> Rows {
    let mut rows = Rows::new(&[
        Column::Left("KEY"),
        Column::Right("SIZE"),
        Column::Left("UPDATED"),
    ]);
    for Item { view, .. } in keys {
        rows.row(vec![
            Cell::new(plain::line(&view.key)),
            Cell::new(human::bytes(view.bytes)),
            Cell::new(plain::line(&view.updated_at)),
        ]);
    }
    rows
}

fn show(get: &Get) -> Result<(), CliError> {
    let (client, output) = get.remote.open()?;
    let key = plain::line(&get.key);
    let doing = format!(
        "read the key {key} of the state {}",
        plain::line(&get.space)
    );
    let answer = client
        .state_value(&get.space, &get.key)
        .map_err(cannot_find(&doing, LISTED))?;
    let (json, view) = (answer.json, answer.view);
    output.print_item(&json, &key, || {
        put_with(|out| {
            let end: &[u8] = if out.is_terminal() { b"\n" } else { b"" };
            out.write_all(&view.into_value())?;
            out.write_all(end)
        })
    })
}

fn write(set: &Set) -> Result<(), CliError> {
    let (client, output) = set.remote.open()?;
    let key = plain::line(&set.key);
    let doing = format!(
        "write the key {key} of the state {}",
        plain::line(&set.space)
    );
    let mut value = set.value.clone().into_bytes();
    if set.value == "-" {
        value.clear();
        let limit = VALUE_BYTES_MAX as u64 + 1;
        let read = std::io::stdin().take(limit).read_to_end(&mut value);
        read.map_err(|error| CliError::new(Exit::Failed, &doing, error))?;
    }
    let answer = client
        .set_state(&set.space, &set.key, value)
        .map_err(cannot_find(&doing, LISTED))?;
    output.print_item(&answer.json, &key, || {
        put_line(&format!("{key} is written"))
    })
}

fn remove(rm: &Rm) -> Result<(), CliError> {
    let (client, output) = rm.remote.open()?;
    let space = plain::line(&rm.space);
    let doing = format!("remove state of {space}");
    if let Some(key) = &rm.key {
        let answer = client
            .remove_state(&rm.space, key)
            .map_err(cannot_find(&doing, LISTED))?;
        let key = plain::line(key);
        return output.print_item(&answer.json, &key, || {
            put_line(&format!("{key} is removed"))
        });
    }
    let mut removed = 0;
    loop {
        let mut answer = client
            .remove_state_keys(&rm.space, rm.prefix.as_deref())
            .map_err(cannot_find(&doing, LISTED))?;
        removed += answer.view.removed;
        if !answer.view.more {
            answer.view.removed = removed;
            let all = Item::new(answer.view)
                .map_err(|error| CliError::new(Exit::Failed, &doing, error))?;
            return output.print_item(all.json.get(), &space, || {
                let keys = human::counted(removed, "key");
                put_line(&format!("removed {keys} of {space}"))
            });
        }
    }
}
