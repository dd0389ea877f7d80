//! `host dev`: builds a handler's project on each change, deploys it to a host of its own, runs a job
//! there and shows what it returned, logged and cost.

mod compare;
mod watch;

use std::path::PathBuf;
use std::sync::mpsc::sync_channel;
use std::thread;

use clap::Args;
use host_api::client::Client;
use host_api::client::TlsFiles;
use host_api::component::{DeployForm, DeployQuery};
use host_console::error::{CliError, Exit, cannot};
use host_console::options::{OutputOptions, connect};
use host_console::output::{Output, say};
use host_console::{json, plain};
use host_runtime::stops::Hangup;
use host_server::config::{Config, Flags};
use host_server::serve as server;
use host_wire_kit::section::Stated;
use rustix::process::{Signal, getpid, kill_process};
use serde_json::value::RawValue;

use self::compare::Cost;
use self::watch::Watch;
use super::build::project::{Built, Project};
use super::serve;
use crate::commands::job::trial;
use crate::component_file::component;
use crate::manifest::Manifest;

/// Build, deploy and run a handler on each change of its project.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host dev word-count
  host dev --handler word-count --params '{\"text\": \"one two\"}'
  host dev --once

Starts a host of its own with its data in target/host-dev, and stops it at the end (Ctrl-C). Params are
those of --params, or of the file params.json in DIR, which may change while it runs.

Exit codes with --once: 0 completed, 1 not built or refused, 3 discarded, 4 cancelled.")]
pub(crate) struct Dev {
    /// The folder of the project
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// The handler to run [default: the first of the component]
    #[arg(long, value_name = "NAME")]
    handler: Option<String>,
    /// The handler's params: JSON or @FILE [default: @DIR/params.json if it is there]
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    params: Option<String>,
    /// Do it once, then exit
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    shown: OutputOptions,
}

/// The host's own folder below the target folder.
const DATA_DIR: &str = "host-dev";

/// The file with the params of the job, in the folder of the project.
const PARAMS_FILE: &str = "params.json";

/// Which parts of the host's own log are shown, if `HOST_LOG` says nothing else.
const LOG: &str = "warn";

/// What repeats.
struct Session {
    dev: Dev,
    project: Project,
    client: Client,
    output: Output,
    last: Option<Cost>,
}

impl Dev {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), CliError> {
        let project = Project::find(&self.dir)?;
        let data = project.target.join(DATA_DIR);
        let shown = data.display().to_string();
        let doing = format!("run a host with its data in {}", plain::line(&shown));
        let failed = |cause: &dyn std::fmt::Display| CliError::new(Exit::Failed, &doing, cause);
        let values = [("data", &*shown), ("http.listen", "127.0.0.1:0")]
            .map(|(key, value)| (key.to_owned(), Stated::by_flag(key, value)));
        let flags = Flags {
            config: None,
            values: values.into(),
        };
        let config = Config::load(&flags).map_err(|error| failed(&error))?;
        serve::log_at(serve::LogFormat::Text, LOG)?;
        let (sender, ended) = sync_channel(1);
        let program = serve::program("dev", config.confinement.clone())?;
        let served = server::run(config, program, Hangup::Stop, move |ready| {
            let address = ready.http.map(|address| address.to_string());
            thread::spawn(move || {
                // The host ends because of the signal below, and then returns its result.
                let _ = sender.send(self.session(project, address));
                let _ = kill_process(getpid(), Signal::TERM);
            });
        });
        // Nothing was sent if the user stopped the host.
        if let Ok(ended) = ended.try_recv() {
            ended?;
        }
        served.map_err(|error| failed(&error))
    }

    /// Repeats until something is wrong with this machine or, with `--once`, until the first end.
    fn session(self, project: Project, address: Option<String>) -> Result<(), CliError> {
        let address = address.unwrap_or_default();
        let client = connect(&format!("http://{address}"), &TlsFiles::default())?;
        let output = self.shown.open();
        let mut watch = Watch::open(&project.dir, &project.target).map_err(|error| {
            let dir = project.dir.display().to_string();
            let doing = format!("watch {}", plain::line(&dir));
            CliError::new(Exit::Failed, doing, error)
        })?;
        let once = self.once;
        let mut session = Session {
            dev: self,
            project,
            client,
            output,
            last: None,
        };
        loop {
            let ran = session.turn();
            if once {
                return ran;
            }
            match ran {
                Err(CliError::Silent(_)) | Ok(()) => {}
                Err(error) => say(&error.to_string()),
            }
            let dir = session.project.dir.display().to_string();
            session.output.note(&format!(
                "waiting for a change in {} (Ctrl-C to stop)",
                plain::line(&dir)
            ));
            watch.changed().map_err(|error| {
                CliError::new(Exit::Failed, "wait for a change of the project", error)
            })?;
        }
    }
}

impl Session {
    /// Builds, deploys and runs once.
    fn turn(&mut self) -> Result<(), CliError> {
        let built = self.project.build()?;
        let handlers = self.deploy(&built)?;
        let handler = match &self.dev.handler {
            Some(handler) => handler.clone(),
            None => handlers.first().cloned().unwrap_or_default(),
        };
        let params = self.params()?;
        let trial = trial::run(&self.client, self.output, &handler, params)?;
        let cost = Cost::new(&trial, built.bytes);
        self.output
            .ending(&cost.line(self.last.as_ref()), trial.exit != Exit::Ok);
        self.last = Some(cost);
        match trial.exit {
            Exit::Ok => Ok(()),
            exit => Err(CliError::Silent(exit)),
        }
    }

    fn deploy(&self, built: &Built) -> Result<Vec<String>, CliError> {
        let manifest = Manifest::read(&built.component, built.manifest.as_deref())?;
        let name = match manifest.name()? {
            Some(name) => name,
            None => self.project.name.parse().map_err(|error| {
                CliError::new(Exit::Usage, "name the component", error)
                    .next("write name = \"…\" into its manifest")
            })?,
        };
        let doing = format!("deploy {name}");
        let component = component(&built.component)?;
        let text = manifest.text(&doing)?;
        let form = DeployForm {
            component: &component,
            manifest: text.as_deref(),
            signature: None,
        };
        let query = DeployQuery {
            accept_grants: true,
            force: true,
            ..DeployQuery::default()
        };
        let deployed = self.client.deploy(name.as_str(), &form, &query);
        Ok(deployed.map_err(cannot(&doing))?.view.revision.handlers)
    }

    fn params(&self) -> Result<Option<Box<RawValue>>, CliError> {
        let file = self.project.dir.join(PARAMS_FILE);
        let given = match &self.dev.params {
            Some(given) => given.clone(),
            None if file.exists() => format!("@{}", file.display()),
            None => return Ok(None),
        };
        Ok(Some(json::argument("--params", &given)?))
    }
}
