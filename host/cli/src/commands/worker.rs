//! `host worker`: the worker role of one wire alone, as a foreign orchestrator launches it or as a
//! service of its own. The verbs and their options are those of the wires.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Args, Command, FromArgMatches};
use host_console::error::{CliError, Exit};
use host_console::output::put_line;
use host_server::config::{self, Config, Flags};
use host_server::worker::{self, Source, WorkerConfig, WorkerError};
use host_wire_kit::Wire;
use host_wire_kit::section::Stated;
use host_wire_kit::settings::{Setting, WorkerFlag, WorkerRole};
use host_wires::WIRES;

use super::serve;

/// Execute the jobs of a foreign orchestrator, without a host.
#[derive(Debug)]
pub(crate) struct Worker {
    wire: &'static str,
    matches: ArgMatches,
}

/// The options of every worker.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("components").required(true).args(["handlers", "data"])))]
struct Common {
    /// Execute the components in this folder, with the manifests beside them; compiled components are
    /// cached under `$XDG_CACHE_HOME/host`
    #[arg(long, value_name = "DIR")]
    handlers: Option<PathBuf>,
    /// Execute what is deployed to the host with this data directory; nothing else of it is used
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// How many cells run jobs [default: one per core, at least 2]
    #[arg(long, value_name = "N")]
    cells: Option<String>,
    /// How many jobs one cell runs concurrently at most [default: 256]
    #[arg(long, value_name = "N")]
    cell_slots: Option<String>,
    /// How much memory the guests of one cell share [default: a quarter of the machine's memory for all cells]
    #[arg(long, value_name = "MIB")]
    cell_memory_mib: Option<String>,
    /// Which jobs share a cell: all, or only those of the same component [default: shared]
    #[arg(long, value_name = "HOW")]
    cell_isolation: Option<String>,
    /// The directories below which manifests may grant directories, comma-separated
    #[arg(long, value_name = "DIRS")]
    grant_read: Option<String>,
    /// The variables of this process that manifests may grant, comma-separated
    #[arg(long, value_name = "NAMES")]
    grant_env: Option<String>,
    /// The servers to which manifests may grant requests, comma-separated
    #[arg(long, value_name = "ORIGINS")]
    grant_http: Option<String>,
    /// Write the logs of guests to standard output if the wire has no place for them: JSON, one document per line,
    /// with the job's id and the level
    #[arg(long, value_name = "WHETHER", default_value = "on")]
    log_jobs: LogJobs,
    /// Write the worker's own log as text or as JSON, one document per line
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: serve::LogFormat,
}

/// Whether the logs of guests are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum LogJobs {
    On,
    Off,
}

fn roles() -> impl Iterator<Item = (&'static Wire, &'static WorkerRole)> {
    WIRES
        .iter()
        .filter_map(|wire| Some((*wire, wire.worker_role?)))
}

/// Returns the command line with two dashes before the options of a wire's worker that have one: other
/// projects launch their workers this way.
pub(crate) fn two_dashes(line: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut line: Vec<OsString> = line.collect();
    let word = |at: usize| line.get(at).and_then(|word| word.to_str());
    let role = roles().find(|(wire, _)| word(2) == Some(wire.name));
    let (Some("worker"), Some((_, role))) = (word(1), role) else {
        return line;
    };
    let is_flag = |name: &str| role.flags.iter().any(|flag| flag.flag == name);
    for word in line.iter_mut().skip(3) {
        let text = word.to_str().and_then(|text| text.strip_prefix('-'));
        let name = text.map(|text| text.split('=').next().unwrap_or(text));
        if name.is_some_and(is_flag) {
            let mut longer = OsString::from("-");
            longer.push(&*word);
            *word = longer;
        }
    }
    line
}

/// Returns the key that an option sets, unless it is ignored.
fn setting(wire: &Wire, flag: &WorkerFlag) -> Option<&'static Setting> {
    wire.keys().find(|setting| setting.key == flag.key)
}

/// Returns whether an option has no value.
fn is_switch(wire: &Wire, flag: &WorkerFlag) -> bool {
    setting(wire, flag).is_some_and(Setting::is_switch)
}

fn option(wire: &Wire, flag: &'static WorkerFlag) -> Arg {
    let setting = setting(wire, flag);
    let value_name = flag.ignored.or(setting.map(Setting::value_name));
    let described = Arg::new(flag.key)
        .long(flag.flag)
        .value_name(value_name.unwrap_or_default())
        .required(flag.is_required)
        .help(flag.help(setting))
        .hide_env_values(true);
    let option = match flag.env {
        Some(variable) => described.env(variable),
        None => described,
    };
    if is_switch(wire, flag) {
        option.action(ArgAction::SetTrue)
    } else if flag.is_repeated {
        option.action(ArgAction::Append)
    } else {
        option
    }
}

impl Args for Worker {
    fn augment_args(command: Command) -> Command {
        let verbs = roles().map(|(wire, role)| {
            let verb = Command::new(wire.name)
                .about(role.about)
                .after_help(role.after_help)
                .args(role.flags.iter().map(|flag| option(wire, flag)));
            Common::augment_args(verb).about(role.about)
        });
        command
            .about("Execute the jobs of a foreign orchestrator, without a host")
            .subcommand_required(true)
            .arg_required_else_help(true)
            .subcommands(verbs)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Worker {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let missing = || clap::Error::new(clap::error::ErrorKind::MissingSubcommand);
        let (name, matches) = matches.subcommand().ok_or_else(missing)?;
        let (wire, _) = roles()
            .find(|(wire, _)| wire.name == name)
            .ok_or_else(missing)?;
        Ok(Self {
            wire: wire.name,
            matches: matches.clone(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Worker {
    /// Runs the worker until it is stopped.
    pub(crate) fn run(self) -> Result<(), CliError> {
        let Some((wire, role)) = roles().find(|(wire, _)| wire.name == self.wire) else {
            return Ok(());
        };
        let doing = role.doing;
        let common = Common::from_arg_matches(&self.matches)
            .map_err(|error| CliError::new(Exit::Usage, doing, error))?;
        serve::leave_first_place(doing);
        serve::log(common.log_format)?;
        let mut values = stated_values(wire, role, &self.matches);
        values.extend(common.values());
        let config = load(doing, values)?;
        let configured = config.wire(self.wire).cloned();
        let program = serve::program(doing, config.confinement.clone())?;
        let worker = common.into_config(doing, config)?;
        let Some(configured) = configured else {
            return Ok(());
        };
        worker::run(&worker, &*configured, program, announce).map_err(|error| {
            let exit = match &error {
                WorkerError::Wire(error) if error.is_usage => Exit::Usage,
                WorkerError::NoHandler(_) => Exit::Usage,
                _ => Exit::Failed,
            };
            CliError::new(exit, doing, error)
        })
    }
}

/// Returns what the wire's own options say, by key. Logs those that are ignored.
fn stated_values(wire: &Wire, role: &WorkerRole, matches: &ArgMatches) -> BTreeMap<String, Stated> {
    let given = role.flags.iter().filter_map(|flag| {
        let key = flag.key;
        if is_switch(wire, flag) {
            let is_set = matches.get_flag(key);
            return is_set.then(|| (key.to_owned(), Stated::by_flag(flag.flag, "true")));
        }
        let texts = matches.get_many::<String>(key)?.map(String::as_str);
        let text = texts.collect::<Vec<_>>().join(",");
        if flag.ignored.is_some() {
            tracing::info!(value = text, "--{} is ignored", flag.flag);
            return None;
        }
        Some((key.to_owned(), Stated::by_flag(flag.flag, text)))
    });
    given.collect()
}

fn load(doing: &str, values: BTreeMap<String, Stated>) -> Result<Config, CliError> {
    let flags = Flags {
        values,
        ..Flags::default()
    };
    Config::load(&flags).map_err(|error| CliError::new(Exit::Usage, doing, error))
}

/// Prints the line that scripts wait for.
fn announce(words: &[(&'static str, String)]) {
    let words = words.iter().map(|(key, value)| format!(" {key}={value}"));
    // A closed standard output does not stop the worker.
    let _ = put_line(&format!("ready{}", words.collect::<String>()));
}

impl Common {
    fn values(&self) -> impl Iterator<Item = (String, Stated)> + use<> {
        let given = [
            ("cells.count", "cells", self.cells.clone()),
            ("cells.slots", "cell-slots", self.cell_slots.clone()),
            (
                "cells.memory_mib",
                "cell-memory-mib",
                self.cell_memory_mib.clone(),
            ),
            (
                "cells.isolation",
                "cell-isolation",
                self.cell_isolation.clone(),
            ),
            ("grants.read_roots", "grant-read", self.grant_read.clone()),
            ("grants.env", "grant-env", self.grant_env.clone()),
            ("grants.http", "grant-http", self.grant_http.clone()),
        ]
        .into_iter();
        given.filter_map(|(key, flag, text)| Some((key.to_owned(), Stated::by_flag(flag, text?))))
    }

    fn into_config(self, doing: &str, config: Config) -> Result<WorkerConfig, CliError> {
        let source = match (self.handlers, self.data) {
            (Some(folder), _) => Source::Folder {
                folder,
                cache: config::cache(&config.environment).ok_or_else(|| {
                    let cause = "there is no directory for the cache of compiled components";
                    CliError::new(Exit::Failed, doing, cause).next("set HOME or XDG_CACHE_HOME")
                })?,
            },
            (None, Some(data)) => Source::Data(data),
            (None, None) => {
                let cause = "missing --handlers or --data";
                return Err(CliError::new(Exit::Usage, doing, cause));
            }
        };
        Ok(WorkerConfig {
            source,
            cells: config.cells,
            slots: config.slots,
            memory_mib: config.memory_mib,
            isolation: config.isolation,
            cache_bytes_max: config.cache_bytes_max,
            allowed_hosts: config.http.allowed_hosts,
            prints_logs: self.log_jobs == LogJobs::On,
            state: config::state(&config.environment),
            grantable: config.grantable,
            reach: config.reach,
            trust: config.trust,
            environment: config.environment,
        })
    }
}
