//! `host context`: hosts by name, and which of them commands use.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use host_api::client::{self, Contexts, Item};
use host_console::contexts;
use host_console::error::{CliError, Exit};
use host_console::options::OutputOptions;
use host_console::output::{Output, put_line, say};
use host_console::plain;
use host_console::table::{Cell, Column, Rows};
use serde::Serialize;

use crate::complete;

/// Keep hosts by name: where they are and which token they get.
#[derive(Debug, Args)]
pub(crate) struct Context {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Add a context, or change it
    #[command(after_help = "\
Examples:
  host context add prod --server https://jobs.example.com:7700 --token-file ~/.config/host/prod.token
  host context add local --server unix:///run/host/api.sock

The first context becomes the current one.")]
    Add(Box<Add>),
    /// Make a context the current one
    #[command(after_help = "Example:\n  host context use prod")]
    Use(ContextArgs),
    /// List the contexts
    #[command(after_help = "Examples:\n  host context ls\n  host context ls -o json")]
    Ls(OutputOptions),
    /// Remove a context; its files stay
    #[command(after_help = "Example:\n  host context rm prod")]
    Rm(ContextArgs),
}

#[derive(Debug, Args)]
struct ContextArgs {
    /// The name of the context
    #[arg(add = complete::contexts())]
    name: String,
}

#[derive(Debug, Args)]
struct Add {
    /// The name of the context
    name: String,
    /// The address of the host: https://NAME:PORT, http:// on this machine, or unix:// and a path
    #[arg(long, value_name = "URL")]
    server: String,
    /// The file with the token for it
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// CA certificates in PEM to trust instead of those of the system
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// A client certificate in PEM
    #[arg(long, value_name = "FILE", requires = "client_key")]
    client_cert: Option<PathBuf>,
    /// The key of that certificate
    #[arg(long, value_name = "FILE", requires = "client_cert")]
    client_key: Option<PathBuf>,
}

impl Context {
    /// Runs the verb.
    pub(crate) fn run(self) -> Result<(), CliError> {
        match self.verb {
            Verb::Add(add) => self::add(*add),
            Verb::Use(named) => make_current(named.name),
            Verb::Ls(shown) => ls(shown.open()),
            Verb::Rm(named) => rm(&named.name),
        }
    }
}

fn add(add: Add) -> Result<(), CliError> {
    let absolute = |file: Option<PathBuf>| {
        let made = file.map(std::path::absolute).transpose();
        made.map_err(|error| CliError::new(Exit::Usage, "add a context", error))
    };
    let context = client::Context {
        server: add.server,
        token_file: absolute(add.token_file)?,
        ca_file: absolute(add.ca_file)?,
        client_cert: absolute(add.client_cert)?,
        client_key: absolute(add.client_key)?,
    };
    context.check()?;
    let mut all = Contexts::load()?;
    all.contexts.insert(add.name.clone(), context);
    let is_current = *all.current.get_or_insert_with(|| add.name.clone()) == add.name;
    contexts::save(&all)?;
    let name = plain::line(&add.name);
    say(&if is_current {
        format!("{name} is the current context")
    } else {
        format!("hint: `host context use {name}` makes it the current context")
    });
    Ok(())
}

fn make_current(name: String) -> Result<(), CliError> {
    let mut all = Contexts::load()?;
    all.get(&name)?;
    let shown = plain::line(&name).into_owned();
    all.current = Some(name);
    contexts::save(&all)?;
    put_line(&format!("{shown} is the current context"))
}

/// A context in the list.
#[derive(Serialize)]
struct View {
    name: String,
    current: bool,
    #[serde(flatten)]
    context: client::Context,
}

fn ls(output: Output) -> Result<(), CliError> {
    let all = Contexts::load()?;
    let current = all.current;
    let views: Vec<_> = all
        .contexts
        .into_iter()
        .map(|(name, context)| {
            let current = current.as_ref() == Some(&name);
            Item::new(View {
                name,
                current,
                context,
            })
        })
        .collect::<Result<_, _>>()
        .map_err(|error| CliError::new(Exit::Failed, "write JSON", error))?;
    output.list(&views, |view| &view.name, || table(&views))?;
    if views.is_empty() {
        output.hint("there are no contexts; `host context add NAME --server URL` adds one");
    }
    Ok(())
}

fn table(views: &[Item<View>]) -> Rows {
    let mut rows = Rows::new(&[
        Column::Left("CURRENT"),
        Column::Left("NAME"),
        Column::Left("SERVER"),
        Column::Left("TOKEN FILE"),
    ]);
    for Item { view, .. } in views {
        let token_file = view.context.token_file.as_ref();
        let file = token_file.map_or("none".into(), |token_file| token_file.to_string_lossy());
        rows.row(vec![
            Cell::new(if view.current { "*" } else { "" }),
            Cell::new(plain::line(&view.name)),
            Cell::new(plain::line(&view.context.server)),
            Cell::new(plain::line(&file)),
        ]);
    }
    rows
}

fn rm(name: &str) -> Result<(), CliError> {
    let mut all = Contexts::load()?;
    all.get(name)?;
    all.contexts.remove(name);
    if all.current.as_deref() == Some(name) {
        all.current = None;
    }
    contexts::save(&all)?;
    put_line(&format!("{} is removed", plain::line(name)))
}
