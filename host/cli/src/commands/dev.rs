//! `host dev`: builds a handler's project on each change, deploys it to a host of its own, runs a job
//! there once and shows what it returned, logged and cost. A change also ends a job that still runs.

pub(super) mod changes;
mod compare;
pub(super) mod own_host;

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use host_api::change::CancelBody;
use host_api::client::Client;
use host_console::error::{CliError, Exit};
use host_console::options::OutputOptions;
use host_console::output::{Output, say};
use host_console::progress::Progress;
use host_console::waiting::now;
use host_console::{human, json, plain};
use host_core::seconds::Seconds;
use host_server::config::{Config, Flags};
use host_wire_kit::section::Stated;
use serde_json::value::RawValue;

use self::changes::Changes;
use self::compare::Cost;
use super::build::project::Project;
use super::grant_options::GrantOptions;
use super::watch::Watch;
use crate::commands::job::trial;

/// Build, deploy and run a handler on each change of its project.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host dev word-count
  host dev --handler word-count --params '{\"text\": \"one two\"}'
  host dev billing --grant-http https://api.example.com --secret api=API_KEY
  host dev --once

Starts a host of its own with its data in target/host-dev, and stops it at the end (Ctrl-C). The job has one
attempt: its failure is shown immediately, with the stack. A change of the project cancels a job that still
runs. Params are those of --params, or of the file params.json in DIR, which may change while it runs.

Components are compiled in less time than `host serve` takes, to code that computes more slowly.

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
    /// The configuration of its host (TOML), for example with limits; its jobs stay in target/host-dev
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    granted: GrantOptions,
    #[command(flatten)]
    shown: OutputOptions,
}

/// The host's own folder below the target folder.
const DATA_DIR: &str = "host-dev";

/// The file with the params of the job, in the folder of the project.
const PARAMS_FILE: &str = "params.json";

/// What repeats.
struct Session {
    dev: Dev,
    project: Project,
    /// The address of the host.
    url: String,
    client: Arc<Client>,
    output: Output,
    changes: Arc<Changes>,
    built: Option<Built>,
    last: Option<Cost>,
}

/// What the last build made.
struct Built {
    handlers: Vec<String>,
    bytes: u64,
}

impl Dev {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), CliError> {
        let project = Project::find(&self.dir)?;
        let data = project.target.join(DATA_DIR);
        let shown = data.display().to_string();
        let doing = format!("run a host with its data in {}", plain::line(&shown));
        let own = [
            ("data", &*shown),
            ("http.listen", "127.0.0.1:0"),
            ("auth.mode", "none"),
        ];
        let mut values = self.granted.values();
        values.extend(own.map(|(key, value)| (key.to_owned(), Stated::by_flag(key, value))));
        let flags = Flags {
            config: self.config.clone(),
            values,
            secrets: self.granted.secrets.clone(),
        };
        let mut config =
            Config::load(&flags).map_err(|error| CliError::new(Exit::Usage, &doing, error))?;
        // A host for development leaves a shared database and its listeners alone.
        config.store = None;
        config.http.others.clear();
        config.http.tls = None;
        if let Some(main) = &mut config.http.main {
            main.is_tls = false;
        }
        own_host::run("dev", &doing, config, move |url| self.session(project, url))
    }

    /// Repeats until something is wrong with this machine or, with `--once`, until the first end.
    fn session(self, project: Project, url: String) -> Result<(), CliError> {
        let client = Arc::new(own_host::client(&url)?);
        let output = self.shown.open();
        let changes = Arc::new(Changes::default());
        let dir = project.dir.display().to_string();
        let shown = plain::line(&dir).into_owned();
        let once = self.once;
        if !once {
            let failed = |error| CliError::new(Exit::Failed, format!("watch {shown}"), error);
            let watch = Watch::open(&project.dir, vec![project.target.clone()]).map_err(failed)?;
            changes.follow(watch, cancel(Arc::clone(&client)));
            output.note(&format!("the dashboard is at {url}/"));
        }
        let mut session = Session {
            dev: self,
            project,
            url,
            client,
            output,
            changes: Arc::clone(&changes),
            built: None,
            last: None,
        };
        let mut paths = Vec::new();
        loop {
            let ran = session.turn(&paths);
            if once {
                return ran;
            }
            match ran {
                Err(CliError::Silent(_)) | Ok(()) => {}
                Err(error) => say(&error.to_string()),
            }
            output.note(&if changes.has_any() {
                "the project has changed".to_owned()
            } else {
                format!("waiting for a change in {shown} (Ctrl-C to stop)")
            });
            paths = changes.take().map_err(|error| {
                CliError::new(Exit::Failed, "wait for a change of the project", error)
            })?;
        }
    }
}

/// Makes what cancels a job whose code has changed.
fn cancel(client: Arc<Client>) -> impl Fn(&str) + Send + 'static {
    move |id| {
        let body = CancelBody {
            reason: Some("the project has changed".to_owned()),
            grace_seconds: Some(Seconds { ms: 0 }),
        };
        // It may have ended already.
        let _ = client.cancel_job(id, &body);
    }
}

impl Session {
    /// Builds, deploys and runs once. Of the changed `paths`, that of params needs no build.
    fn turn(&mut self, paths: &[PathBuf]) -> Result<(), CliError> {
        let file = self.project.dir.join(PARAMS_FILE);
        let has_new_params = !paths.is_empty() && paths.iter().all(|path| *path == file);
        if !has_new_params {
            self.built = None;
        }
        let built = match self.built.take() {
            Some(built) => built,
            None => self.build()?,
        };
        if self.changes.has_any() {
            return Ok(());
        }
        let first = built.handlers.first().cloned();
        let handler = self.dev.handler.clone().or(first).unwrap_or_default();
        let bytes = built.bytes;
        self.built = Some(built);
        let (client, changes) = (&self.client, &self.changes);
        let began = |id: &str| {
            if changes.begin_job(id) {
                cancel(Arc::clone(client))(id);
            }
        };
        let trial = trial::run(client, self.output, &handler, self.params()?, began);
        self.changes.end_job();
        let trial = trial?;
        if self.changes.has_any() {
            return Ok(());
        }
        let cost = Cost::new(&trial, bytes);
        self.output
            .ending(&cost.line(self.last.as_ref()), trial.exit != Exit::Ok);
        self.last = Some(cost);
        if !self.dev.once {
            self.output
                .hint(&format!("`{}` runs it again", self.again(&handler)));
        }
        match trial.exit {
            Exit::Ok => Ok(()),
            exit => Err(CliError::Silent(exit)),
        }
    }

    /// Builds the component and deploys it.
    fn build(&self) -> Result<Built, CliError> {
        let began = now();
        let took = |since: std::time::Instant| {
            human::took(u64::try_from(since.elapsed().as_millis()).unwrap_or_default())
        };
        let built = own_host::build(&self.project, self.output)?;
        let build_time = took(began);
        let began = now();
        let progress = Progress::new(self.output, "compile and deploy");
        let handlers = own_host::deploy(&self.client, &self.project, &built)?;
        drop(progress);
        if self.output.is_human() {
            let deploy_time = took(began);
            self.output
                .note(&format!("built in {build_time}, deployed in {deploy_time}"));
        }
        let bytes = built.bytes;
        Ok(Built { handlers, bytes })
    }

    /// Returns the value of `--params`, if there are params.
    fn params_argument(&self) -> Option<String> {
        let file = self.project.dir.join(PARAMS_FILE);
        let in_file = || file.exists().then(|| format!("@{}", file.display()));
        self.dev.params.clone().or_else(in_file)
    }

    fn params(&self) -> Result<Option<Box<RawValue>>, CliError> {
        let argument = self.params_argument();
        argument
            .map(|text| json::argument("--params", &text))
            .transpose()
    }

    /// Returns the command that runs the same job again.
    fn again(&self, handler: &str) -> String {
        let mut words = vec!["host", "job", "enqueue", handler];
        let params = self.params_argument();
        words.extend(params.iter().flat_map(|text| ["--params", text]));
        words.extend(["--max-attempts", "1", "--wait", "--server", &self.url]);
        words.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
    }
}

/// Quotes a word for a shell, if it needs that.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@,=+%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", plain::line(word).replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn words_are_quoted_for_a_shell() {
        for (word, expected) in [
            ("@/srv/params.json", "@/srv/params.json"),
            ("", "''"),
            ("{\"a\": 1}", "'{\"a\": 1}'"),
            ("it's", "'it'\\''s'"),
            ("$HOME", "'$HOME'"),
        ] {
            assert_eq!(quoted(word), expected);
        }
    }
}
