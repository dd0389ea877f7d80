//! The command line as a whole: its own nouns, and those that wires bring.

use std::ffi::OsString;

use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use host_console::command::Command;
use host_console::error::{CliError, Exit};
use host_wires::WIRES;

use crate::commands::{
    artifact, audit, backup, batch, build, cell, completion, component, context, deploy, dev, docs,
    doctor, egress, explain, failure, handler, job, limit, man, new, node, outbox, queue, run,
    runner, schedule, serve, state, store, token, up, webhook, worker,
};

const EXAMPLES: &str = "\
Examples:
  host serve --data ./data
  host deploy handlers.wasm
  host job enqueue echo --params '{\"a\": 1}' --wait

Exit codes:
  0  done                      4  the job was cancelled
  1  refused or failed         5  not found
  2  wrong command line        6  the host does not answer
  3  the job was discarded     7  the wait timed out
  8  the host lost its place among the nodes of its database";

/// Returns the nouns that wires bring.
fn of_wires() -> impl Iterator<Item = &'static dyn Command> {
    WIRES.iter().filter_map(|wire| wire.command)
}

/// The noun that those of the wires follow, in the help as everywhere else.
const BEFORE_WIRES: &str = "runner";

/// The noun of child processes.
const CELL: &str = "cell";

/// The noun of the process that sends requests of handlers.
const EGRESS: &str = "egress";

/// Runs jobs in sandboxes and loses none of them
#[derive(Debug, Parser)]
#[command(name = "host", version, after_help = EXAMPLES, subcommand_required = true)]
#[command(
    arg_required_else_help = true,
    disable_help_subcommand = true,
    max_term_width = 100
)]
struct Cli {}

/// The nouns of `host` itself.
#[derive(Debug, Subcommand)]
enum Noun {
    /// Run a host: accept jobs, run them in sandboxes and keep them through crashes
    Serve(serve::Serve),
    /// Create the crate of a new handler
    New(new::New),
    /// Build a handler's crate into a component
    Build(build::Build),
    /// Build, deploy and run a handler on each change of its project
    Dev(dev::Dev),
    /// Run a host with all projects of a folder, and deploy each on each change
    Up(up::Up),
    /// Run a handler once on this machine, without a host
    Run(run::Run),
    /// Deploy a component's handlers to a host
    Deploy(deploy::Deploy),
    /// List, show, roll back and remove deployed components
    Component(component::Component),
    /// List and show the handlers that jobs can run
    Handler(handler::Handler),
    /// Enqueue, show, cancel and retry jobs
    Job(Box<job::Job>),
    /// Send files for jobs to read
    Artifact(artifact::Artifact),
    /// List, show and retry discarded jobs by their cause
    Failure(failure::Failure),
    /// List, show, pause, resume, limit and remove queues
    Queue(queue::Queue),
    /// Make, fill, close, cancel, retry, purge, list and show batches of jobs
    Batch(batch::Batch),
    /// Try the webhooks that jobs and batches name
    Webhook(webhook::Webhook),
    /// Set, list, show and remove limits by key
    Limit(limit::Limit),
    /// Set, list, pause, trigger and remove schedules
    Schedule(schedule::Schedule),
    /// List, show, write and remove the state that handlers keep
    State(state::State),
    /// List, show, drain and resume the nodes that share a store
    Node(node::Node),
    /// List, show and restart foreign runners
    Runner(runner::Runner),
    /// Make, list, rotate and revoke tokens for the API
    Token(token::Token),
    /// Show who changed what, or was not allowed to, and check that the record is whole
    Audit(audit::Audit),
    /// Keep hosts by name: where they are and which token they get
    Context(context::Context),
    /// Check that a host can run well on this machine
    Doctor(doctor::Doctor),
    /// Execute the jobs of a foreign orchestrator, without a host
    Worker(worker::Worker),
    /// Back up the data of a host, even while it runs
    Backup(backup::Backup),
    /// Restore a backup into a data directory
    Restore(backup::Restore),
    /// Check the store of a data directory
    Store(store::Store),
    /// Enqueue jobs in transactions of your own PostgreSQL
    Outbox(outbox::Outbox),
    /// Explain an error code and what to do about it
    Explain(explain::Explain),
    /// Print a completion script for a shell
    Completion(completion::Completion),
    /// The child processes of a host
    #[command(name = CELL, hide = true)]
    Cell(cell::Cell),
    /// The process that sends requests of handlers
    #[command(name = EGRESS, hide = true)]
    Egress(egress::Egress),
    /// Print docs/cli.md
    #[command(name = "__cli-docs", hide = true)]
    CliDocs,
    /// Write manual pages
    #[command(name = "__man", hide = true)]
    Man(man::Man),
}

/// Returns the definition of the whole command line, with the nouns of the wires among the others.
pub(crate) fn definition() -> clap::Command {
    let own = Noun::augment_subcommands(clap::Command::new("host"));
    let mut nouns = Vec::new();
    for noun in own.get_subcommands() {
        nouns.push(noun.clone());
        if noun.get_name() == BEFORE_WIRES {
            nouns.extend(of_wires().map(Command::clap));
        }
    }
    let nouns = nouns.into_iter().enumerate();
    Cli::command().subcommands(nouns.map(|(place, noun)| noun.display_order(place)))
}

/// Reads the command line of this process. The error is an answer, too: a help text, for instance.
pub(crate) fn parse() -> Result<ArgMatches, clap::Error> {
    // A child process needs none of the other nouns, which would be half a megabyte in each cell.
    let definition = match std::env::args_os().nth(1) {
        Some(noun) if noun == CELL => Cli::command().subcommand(cell::Cell::definition(CELL)),
        Some(noun) if noun == EGRESS => {
            Cli::command().subcommand(egress::Egress::definition(EGRESS))
        }
        _ => definition(),
    };
    let line = worker::two_dashes(server_last(std::env::args_os().collect()).into_iter());
    definition.try_get_matches_from(line)
}

/// Returns the command line with a `--server URL` that stands before the noun at its end, where commands have it.
fn server_last(mut line: Vec<OsString>) -> Vec<OsString> {
    let first = line.get(1).and_then(|word| word.to_str());
    let words = match first {
        Some("--server") => 2,
        Some(word) if word.starts_with("--server=") => 1,
        _ => return line,
    };
    let from_noun = line.split_off((1 + words).min(line.len()));
    let server = line.split_off(1);
    line.extend(from_noun);
    let end = line
        .iter()
        .position(|word| word == "--")
        .unwrap_or(line.len());
    line.splice(end..end, server);
    line
}

/// Runs the command that `matches` name to its end.
pub(crate) fn run(matches: &ArgMatches) -> Result<(), CliError> {
    if let Some((name, matches)) = matches.subcommand()
        && let Some(noun) = of_wires().find(|noun| noun.clap().get_name() == name)
    {
        return noun.run(matches);
    }
    let noun = Noun::from_arg_matches(matches).map_err(|error| {
        CliError::new(Exit::Usage, "read the command line", error)
            .next("`host --help` lists the commands")
    })?;
    noun.run()
}

impl Noun {
    fn run(self) -> Result<(), CliError> {
        match self {
            Self::Serve(serve) => serve.run(),
            Self::New(new) => new.run(),
            Self::Build(build) => build.run(),
            Self::Dev(dev) => dev.run(),
            Self::Up(up) => up.run(),
            Self::Run(run) => run.run(),
            Self::Deploy(deploy) => deploy.run(),
            Self::Component(component) => component.run(),
            Self::Handler(handler) => handler.run(),
            Self::Job(job) => job.run(),
            Self::Artifact(artifact) => artifact.run(),
            Self::Queue(queue) => queue.run(),
            Self::Failure(failure) => failure.run(),
            Self::Batch(batch) => batch.run(),
            Self::Webhook(webhook) => webhook.run(),
            Self::Limit(limit) => limit.run(),
            Self::Schedule(schedule) => schedule.run(),
            Self::State(state) => state.run(),
            Self::Node(node) => node.run(),
            Self::Runner(runner) => runner.run(),
            Self::Token(token) => token.run(),
            Self::Audit(audit) => audit.run(),
            Self::Context(context) => context.run(),
            Self::Doctor(doctor) => doctor.run(),
            Self::Backup(backup) => backup.run(),
            Self::Restore(restore) => restore.run(),
            Self::Store(store) => store.run(),
            Self::Outbox(outbox) => outbox.run(),
            Self::Worker(worker) => worker.run(),
            Self::Explain(explain) => explain.run(),
            Self::Completion(completion) => completion.run(),
            Self::Cell(cell) => cell.run(),
            Self::Egress(egress) => egress.run(),
            Self::CliDocs => docs::run(definition()),
            Self::Man(man) => man.run(definition()),
        }
    }
}

#[cfg(test)]
mod tests;
