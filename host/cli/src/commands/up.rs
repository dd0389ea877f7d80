//! `host up`: runs a host for development with all projects of a folder, and builds and deploys each again when it changes.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use host_api::client::Client;
use host_console::error::{CliError, Exit};
use host_console::options::OutputOptions;
use host_console::output::{Output, say};
use host_console::plain;
use host_server::auth::AuthMode;
use host_server::config::{Config, Flags};
use host_wire_kit::section::Stated;

use super::build::project::Project;
use super::dev::changes::Changes;
use super::dev::own_host;
use super::watch::Watch;

/// Run a host with all projects of a folder, and deploy each on each change.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host up
  host up services --config services/host.toml

Each folder in DIR with a Cargo.toml, package.json or pyproject.toml is a project, as `host new` makes one. Its component
gets all that its manifest asks for, as far as the configuration allows it. Data is kept in DIR/.host, unless
the configuration says where. For production, use `host serve` and `host deploy`.")]
pub(crate) struct Up {
    /// The folder with the projects
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// The configuration of the host (TOML) [default: DIR/host.toml if it is there]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    shown: OutputOptions,
}

/// The configuration in the folder of the projects.
const CONFIG_FILE: &str = "host.toml";

/// The data directory there.
const DATA_DIR: &str = ".host";

impl Up {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), CliError> {
        let shown = self.dir.display().to_string();
        let doing = format!("run a host with the projects in {}", plain::line(&shown));
        let usage = |cause: &dyn std::fmt::Display| CliError::new(Exit::Usage, &doing, cause);
        let dir = std::path::absolute(&self.dir)
            .and_then(std::fs::canonicalize)
            .map_err(|error| usage(&error).next("pass the folder that has the projects"))?;
        let beside = dir.join(CONFIG_FILE);
        let mut flags = Flags {
            config: self.config.or_else(|| beside.exists().then_some(beside)),
            ..Flags::default()
        };
        let mut config = Config::load(&flags).map_err(|error| usage(&error))?;
        if !config.keys.contains(&"data") {
            let data = Stated::by_flag("data", dir.join(DATA_DIR).display().to_string());
            flags.values.insert("data".to_owned(), data);
            config = Config::load(&flags).map_err(|error| usage(&error))?;
        }
        if config.auth.mode != AuthMode::None || config.http.tls.is_some() {
            let next = "give it a configuration without auth.mode and http.tls_cert_file, or use `host serve`";
            return Err(usage(&"it is for development, without tokens and TLS").next(next));
        }
        let output = self.shown.open();
        let data = config.data.clone();
        own_host::run("up", &doing, config, move |url| {
            let client = own_host::client(&url)?;
            output.note(&format!("the dashboard is at {url}/"));
            Session {
                dir,
                data,
                client,
                output,
            }
            .repeat()
        })
    }
}

struct Session {
    dir: PathBuf,
    data: PathBuf,
    client: Client,
    output: Output,
}

impl Session {
    /// Deploys all projects, then those that change.
    fn repeat(&self) -> Result<(), CliError> {
        let failed = |error| CliError::new(Exit::Failed, "watch the projects", error);
        let changes = Arc::new(Changes::default());
        let mut except = vec![self.data.clone()];
        except.extend(self.projects().map(|project| project.target));
        // It watches before the first build, which reads the files.
        let watch = Watch::open(&self.dir, except).map_err(failed)?;
        changes.follow(watch, |_| {});
        let mut paths = vec![self.dir.clone()];
        loop {
            for project in self.projects() {
                let is_changed = |path: &PathBuf| {
                    path.starts_with(&project.dir) || project.dir.starts_with(path)
                };
                if paths.iter().any(is_changed) {
                    self.deploy(&project);
                }
            }
            if !changes.has_any() {
                self.output.note("waiting for a change (Ctrl-C to stop)");
            }
            paths = changes.take().map_err(failed)?;
        }
    }

    /// Returns the projects, in order of their folders. A folder that has no component is said.
    fn projects(&self) -> impl Iterator<Item = Project> + use<> {
        let mut folders: Vec<PathBuf> = std::fs::read_dir(&self.dir)
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| Project::is_in(path))
            .collect();
        folders.sort();
        folders
            .into_iter()
            .filter_map(|folder| Project::find(&folder).map_err(report).ok())
    }

    fn deploy(&self, project: &Project) {
        let deployed = own_host::build(project, self.output)
            .and_then(|built| own_host::deploy(&self.client, project, &built));
        match deployed {
            Ok(handlers) => {
                let (name, handlers) = (plain::line(&project.name), handlers.join(", "));
                self.output
                    .note(&format!("{name} is deployed: {}", plain::line(&handlers)));
            }
            Err(error) => report(error),
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is the end of the error")]
fn report(error: CliError) {
    say(&error.to_string());
}
