//! The command line as a whole: the nouns, the options they share and how they reach their command.

use clap::{Args, Parser, Subcommand};

use crate::client::{Client, SERVER_DEFAULT};
use crate::commands::{
    cell, completion, component, deploy, doctor, explain, handler, hero, job, queue, run, runner,
    serve, store, worker,
};
use crate::error::CliError;
use crate::output::{Format, Output};

const EXAMPLES: &str = "\
Examples:
  host serve --data ./data
  host deploy handlers.wasm
  host job enqueue echo --params '{\"a\": 1}' --wait

Exit codes:
  0  done                      4  the job was cancelled
  1  refused or failed         5  not found
  2  wrong command line        6  no host answers
  3  the job was discarded     7  the wait ran out";

/// Runs jobs in sandboxes and loses none of them
#[derive(Debug, Parser)]
#[command(name = "host", version, after_help = EXAMPLES, subcommand_required = true)]
#[command(
    arg_required_else_help = true,
    disable_help_subcommand = true,
    max_term_width = 100
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) noun: Noun,
}

/// What a command is about.
#[derive(Debug, Subcommand)]
pub(crate) enum Noun {
    /// Run a host: accept jobs, run them in sandboxes and keep them through crashes
    Serve(serve::Serve),
    /// Run a handler once, here and now, without a host
    Run(run::Run),
    /// Bring a component's handlers to a host
    Deploy(deploy::Deploy),
    /// Look at deployed components, go back to earlier ones and remove them
    Component(component::Component),
    /// Look at what can be run
    Handler(handler::Handler),
    /// Enqueue, watch and steer jobs
    Job(Box<job::Job>),
    /// Look at queues, pause and resume them
    Queue(queue::Queue),
    /// Look at foreign runners and restart them
    Runner(runner::Runner),
    /// Submit, watch and steer jobs of Hero workers, in the Redis a host is configured for
    Hero(Box<hero::Hero>),
    /// Check that this machine runs jobs well
    Doctor(doctor::Doctor),
    /// Execute the jobs of a foreign orchestrator, without a host
    Worker(worker::Worker),
    /// Look after the store of a data directory
    Store(store::Store),
    /// Say what an error code means and what to do next
    Explain(explain::Explain),
    /// Print a script that completes commands in a shell
    Completion(completion::Completion),
    /// The child processes of a host
    #[command(hide = true)]
    Cell(cell::Cell),
    /// Print docs/cli.md
    #[command(name = "__cli-docs", hide = true)]
    CliDocs,
}

/// The options of commands that talk to a host.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Host")]
pub(crate) struct Remote {
    /// The host to talk to
    #[arg(long, value_name = "URL", env = "HOST_SERVER", hide_env_values = true, default_value = SERVER_DEFAULT)]
    server: String,
    #[command(flatten)]
    shown: Shown,
}

/// The options of commands that print data.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Shown {
    /// How to write the data
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        default_value = "table",
        hide_possible_values = true
    )]
    #[arg(help = "How to write the data: table, json, jsonl or name")]
    output: Format,
    /// Print no notes and hints, only data and errors
    #[arg(short, long)]
    quiet: bool,
}

impl Remote {
    /// Opens what the command needs: the host and the terminal.
    pub(crate) fn open(&self) -> Result<(Client, Output), CliError> {
        Ok((Client::new(&self.server)?, self.shown.open()))
    }
}

impl Shown {
    /// Opens the terminal.
    pub(crate) fn open(self) -> Output {
        Output::new(self.output, self.quiet)
    }
}
