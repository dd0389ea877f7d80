//! `host worker`: one wire's worker role alone, as a foreign orchestrator launches it or as a service
//! of its own.

mod hero;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use host_console::error::{CliError, Exit};
use host_console::output::put_line;
use host_server::config::{self, Config, Flags, HeroConfig};
use host_server::worker::{self, Source, WorkerConfig, WorkerError};

use super::serve;

/// Execute the jobs of a foreign orchestrator, without a host.
#[derive(Debug, Args)]
pub(crate) struct Worker {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Be a runner of an RRQ orchestrator: listen where it connects
    #[command(after_help = "\
Examples:
  host worker rrq --tcp-socket 127.0.0.1:9000 --handlers ./handlers
  RRQ_RUNNER_TCP_SOCKET=127.0.0.1:9000 host worker rrq --data ./data

Prints `ready rrq=ADDR` once requests are executed. SIGTERM stops guests, writes answers and ends
within 200 ms; so does the end of the process that started this one. Any number may run beside each
other and beside a `host serve`.")]
    Rrq(Rrq),
    /// Take jobs of Hero dispatchers from their Redis
    #[command(after_help = "\
Examples:
  host worker hero --url redis://127.0.0.1:6379 --worker-id w1 --worker-id w2 --handlers ./handlers
  HOST_HERO_URL=redis://:PASSWORD@127.0.0.1/1 host worker hero --worker-id w1 --data ./data

Prints `ready hero=URL worker_ids=IDS` once handlers are known, and waits for a Redis that is not there
yet. SIGTERM or SIGINT stops guests, gives back to Redis what has not ended, and ends within 2 s with 0:
fit for a service manager. Any number may run on one queue, here or on other machines; each job is run
by one of them. A worker that dies leaves its jobs to the others after 15 s, and to itself as soon as it
starts again: for that it keeps a name under $STATE_DIRECTORY, $XDG_STATE_HOME/host or
~/.local/state/host, another one for each that runs. The variables and keys of [protocol.hero] in
docs/config.md hold here too.")]
    Hero(hero::Hero),
}

#[derive(Debug, Args)]
struct Rrq {
    /// Where the orchestrator connects
    #[arg(
        long,
        value_name = "HOST:PORT",
        env = "RRQ_RUNNER_TCP_SOCKET",
        hide_env_values = true
    )]
    tcp_socket: String,
    #[command(flatten)]
    shared: Shared,
}

/// What the workers of all wires take.
#[derive(Debug, Args)]
struct Shared {
    /// The components to execute, with manifests beside them; compiled ones are cached under
    /// `$XDG_CACHE_HOME/host`
    #[arg(
        long,
        value_name = "DIR",
        required_unless_present = "data",
        conflicts_with = "data"
    )]
    handlers: Option<PathBuf>,
    /// Execute what is deployed to the host with this data directory; nothing else of it is used
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// How many cells run jobs [default: one per core, at least 2]
    #[arg(long, value_name = "N")]
    cells: Option<String>,
    /// How many jobs one cell runs at once [default: 64]
    #[arg(long, value_name = "N")]
    cell_slots: Option<String>,
    /// How much memory the guests of one cell share [default: a quarter of the machine's over all]
    #[arg(long, value_name = "MIB")]
    cell_memory_mib: Option<String>,
    /// How the worker writes about itself
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: serve::LogFormat,
}

impl Worker {
    /// Runs the verb.
    pub(crate) fn run(self) -> Result<(), CliError> {
        match self.verb {
            Verb::Rrq(rrq) => rrq.run(),
            Verb::Hero(hero) => hero.run(),
        }
    }
}

impl Rrq {
    fn run(self) -> Result<(), CliError> {
        const DOING: &str = "work for RRQ orchestrators";
        serve::log(self.shared.log_format);
        let (config, _) = self.shared.config(DOING, [])?;
        let program = serve::program(DOING)?;
        worker::rrq(&config, program, &self.tcp_socket, |address| {
            // An orchestrator may not read it; the worker works all the same.
            let _unread = put_line(&format!("ready rrq={address}"));
        })
        .map_err(|error| {
            let exit = match error {
                WorkerError::Listen(_) => Exit::Usage,
                _ => Exit::Failed,
            };
            CliError::new(exit, DOING, error)
        })
    }
}

impl Shared {
    /// Reads the configuration, with what the flags of a wire say over it.
    fn config<const N: usize>(
        self,
        doing: &str,
        of_wire: [(&'static str, Option<String>); N],
    ) -> Result<(WorkerConfig, Option<HeroConfig>), CliError> {
        let given = [
            ("cells.count", self.cells),
            ("cells.slots", self.cell_slots),
            ("cells.memory_mib", self.cell_memory_mib),
        ];
        let given = given.into_iter().chain(of_wire);
        let flags = Flags {
            config: None,
            values: given.filter_map(|(key, text)| Some((key, text?))).collect(),
        };
        let config =
            Config::load(&flags).map_err(|error| CliError::new(Exit::Usage, doing, error))?;
        let source = match (self.handlers, self.data) {
            (Some(folder), _) => Source::Folder {
                folder,
                cache: config::cache(&config.environment).ok_or_else(|| {
                    let cause = "no folder for compiled components is known";
                    CliError::new(Exit::Failed, doing, cause).next("set HOME or XDG_CACHE_HOME")
                })?,
            },
            (None, Some(data)) => Source::Data(data),
            (None, None) => {
                let cause = "neither --handlers nor --data is given";
                return Err(CliError::new(Exit::Usage, doing, cause));
            }
        };
        let worker = WorkerConfig {
            source,
            cells: config.cells,
            slots: config.slots,
            memory_mib: config.memory_mib,
            rrq_margin_ms: config.rrq_margin_ms,
            environment: config.environment,
        };
        Ok((worker, config.hero))
    }
}
