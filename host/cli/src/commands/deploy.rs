//! `host deploy`: sends a component and its manifest to a host and prints what changed there.

use std::path::PathBuf;

use clap::Args;
use host_api::component::{DeployForm, DeployQuery, DeployedView};
use host_console::error::{CliError, Exit, cannot};
use host_console::options::Remote;
use host_console::output::Output;
use host_console::progress::Progress;
use host_console::table::Rows;
use host_console::{human, plain};
use host_core::name::Name;
use host_core::seconds::Seconds;

use super::component::{
    hint_removed, note_stubbed, put_changed_limits, put_grants, put_removed, waiting,
};
use crate::component_file::{component, signature};
use crate::manifest::{Manifest, Overrides};

/// Deploy a component's handlers to a host.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host deploy handlers.wasm
  host deploy target/guests/report.wasm --name billing --memory-mib 256 --timeout 5m
  host deploy report.wasm --env TZ --read-dir /srv/reports:/reports --accept-grants
  host deploy report.wasm --wait-nodes=2m
  host deploy report.wasm --label v1.4.2 --note \"commit 3f2a9c1\"

A manifest grants only what the section `grants` of the host's configuration allows. New grants are
shown, and need --accept-grants.

A host with `deploy.trusted_keys` requires a signature by one of them: `minisign -Sm report.wasm`
writes it next to the file.

A manifest is a TOML file:
  name = \"billing\"
  [defaults]
  memory_mib = 128
  [handlers.report]
  timeout_seconds = 300
  read_dirs = [{ host = \"/srv/reports\", guest = \"/reports\" }]")]
pub(crate) struct Deploy {
    /// The WebAssembly component
    file: PathBuf,
    /// The component's name [default: the manifest's name, or FILE without its ending]
    #[arg(long)]
    name: Option<Name>,
    /// Its manifest [default: FILE with the ending .toml, if there is one]
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,
    /// Its signature, made with minisign [default: FILE.minisig, if there is one]
    #[arg(long, value_name = "FILE")]
    signature: Option<PathBuf>,
    /// What to call the revision, such as v1.4.2
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
    /// What to keep about the revision, such as the commit that it was built from
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// Let handlers have grants that they did not have before
    #[arg(long)]
    accept_grants: bool,
    /// Deploy even if the params of waiting jobs do not match a new schema
    #[arg(long)]
    force: bool,
    /// Wait until all nodes of the store can run it, at most this long [default: 5m]
    #[arg(
        long, value_name = "DURATION", num_args = 0..=1, require_equals = true,
        default_missing_value = "5m", value_parser = human::parse_duration
    )]
    wait_nodes: Option<Seconds>,
    #[command(flatten)]
    overrides: Overrides,
    #[command(flatten)]
    remote: Remote,
}

impl Deploy {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), CliError> {
        let (client, output) = self.remote.open()?;
        let path = self.file.display().to_string();
        let file = plain::line(&path);
        let mut manifest = Manifest::read(&self.file, self.manifest.as_deref())?;
        let name = self.name(&manifest)?;
        manifest.set_name(self.name.as_ref());
        let unreached = manifest.set_defaults(&self.overrides)?;
        let component = component(&self.file)?;
        let signature = signature(&self.file, self.signature.as_deref())?;
        if let Some(path) = manifest.path()
            && output.is_human()
        {
            let path = path.display().to_string();
            output.note(&format!("using the manifest {}", plain::line(&path)));
        }
        for note in &unreached {
            output.note(note);
        }

        let doing = format!("deploy {file} as {name}");
        let text = manifest.text(&doing)?;
        let waiting = Progress::new(output, &format!("deploying {name}"));
        let form = DeployForm {
            component: &component,
            manifest: text.as_deref(),
            signature: signature.as_deref(),
        };
        let query = DeployQuery {
            accept_grants: self.accept_grants,
            force: self.force,
            label: self.label.clone(),
            note: self.note.clone(),
        };
        let answer = client.deploy(name.as_str(), &form, &query);
        drop(waiting);
        let answer = answer.map_err(cannot(&doing))?;
        let deployed = &answer.view;
        let component = plain::line(&deployed.revision.component);
        output.print_item(&answer.json, &component, || {
            print(output, deployed, answer.status == 200)
        })?;
        if output.is_human() {
            note_stubbed(output, &deployed.stubbed);
        }
        hint_removed(output, &deployed.handlers_removed);
        if text.is_none() && !deployed.limits_changed.is_empty() {
            output.hint(
                "no manifest was sent, so handlers have the default limits; --manifest FILE sends one",
            );
        }
        if let Some(timeout) = self.wait_nodes {
            let view = &deployed.revision;
            waiting::all_ready(&client, output, &view.component, view.revision, timeout)?;
        } else if deployed.nodes_ready < deployed.nodes_all {
            output.hint(&format!(
                "`host component show {component}` shows which nodes are ready, --wait-nodes waits for them"
            ));
            return Ok(());
        }
        output.hint("`host handler show NAME` shows a handler's params, limits and grants");
        Ok(())
    }

    /// Returns the component's name: the option's, the manifest's or the file's.
    fn name(&self, manifest: &Manifest) -> Result<Name, CliError> {
        if let Some(name) = &self.name {
            return Ok(name.clone());
        }
        if let Some(name) = manifest.name()? {
            return Ok(name);
        }
        let stem = self.file.file_stem().unwrap_or_default().to_string_lossy();
        stem.parse().map_err(|error| {
            let doing = format!("name a component {}", plain::line(&stem));
            CliError::new(Exit::Usage, doing, error).next("give it a name with --name")
        })
    }
}

fn print(output: Output, deployed: &DeployedView, unchanged: bool) -> Result<(), CliError> {
    let revision = &deployed.revision;
    let mut rows = Rows::pairs();
    rows.pair("component", &plain::line(&revision.component));
    let unchanged = if unchanged { " (unchanged)" } else { "" };
    rows.pair("revision", &format!("{}{unchanged}", revision.revision));
    rows.pair("digest", &plain::line(&revision.digest));
    if let Some(label) = &revision.label {
        rows.pair("label", &plain::line(label));
    }
    if let Some(key) = &revision.signed_by {
        rows.pair("signed by", &plain::line(key));
    }
    let handlers: Vec<_> = revision.handlers.iter().map(|it| plain::line(it)).collect();
    rows.pair("handlers", &handlers.join(" "));
    if !revision.schedules.is_empty() {
        let schedules = revision.schedules.iter().map(|it| plain::line(it));
        rows.pair("schedules", &schedules.collect::<Vec<_>>().join(" "));
    }
    if deployed.nodes_all > 1 {
        let ready = format!("{} of {} ready", deployed.nodes_ready, deployed.nodes_all);
        rows.pair("nodes", &ready);
    }
    output.rows(rows)?;
    put_removed(&deployed.handlers_removed)?;
    put_grants(deployed)?;
    put_changed_limits(&deployed.limits_changed)
}
