//! A host in this process for someone who writes handlers, and what is built and deployed to it.

use std::sync::mpsc::sync_channel;
use std::thread;

use host_api::client::{Client, TlsFiles};
use host_api::component::{DeployForm, DeployQuery};
use host_console::error::{CliError, Exit, cannot};
use host_console::options::connect;
use host_console::output::Output;
use host_console::progress::Progress;
use host_runtime::stops::Hangup;
use host_server::config::Config;
use host_server::serve as server;
use rustix::process::{Signal, getpid, kill_process};

use crate::commands::build::project::{Built, Project};
use crate::commands::serve;
use crate::component_file::component;
use crate::manifest::Manifest;

/// Which parts of the host's own log are shown, if `HOST_LOG` says nothing else.
const LOG: &str = "warn";

/// Runs a host until it is stopped, and beside it `session` with its address. The host ends with the session.
pub(in crate::commands) fn run(
    command: &str,
    doing: &str,
    config: Config,
    session: impl FnOnce(String) -> Result<(), CliError> + Send + 'static,
) -> Result<(), CliError> {
    serve::log_at(serve::LogFormat::Text, LOG)?;
    let (sender, ended) = sync_channel(1);
    let program = serve::quick_program(command, config.confinement.clone())?;
    let served = server::run(config, program, Hangup::Stop, move |ready| {
        let address = ready.http.map(|address| address.to_string());
        thread::spawn(move || {
            let url = format!("http://{}", address.unwrap_or_default());
            // The host ends because of the signal below, and then returns its result.
            let _ = sender.send(session(url));
            let _ = kill_process(getpid(), Signal::TERM);
        });
    });
    // Nothing was sent if the user stopped the host.
    if let Ok(ended) = ended.try_recv() {
        ended?;
    }
    served.map_err(|error| CliError::new(Exit::Failed, doing, error))
}

/// Returns a client of the host.
pub(in crate::commands) fn client(url: &str) -> Result<Client, CliError> {
    connect(url, &TlsFiles::default())
}

/// Builds a project and shows that it does.
pub(in crate::commands) fn build(project: &Project, output: Output) -> Result<Built, CliError> {
    let doing = format!("build {}", project.name);
    let _progress = (!project.shows_progress()).then(|| Progress::new(output, &doing));
    project.build()
}

/// Deploys what was built, with all that its manifest asks for. Returns its handlers.
pub(in crate::commands) fn deploy(
    client: &Client,
    project: &Project,
    built: &Built,
) -> Result<Vec<String>, CliError> {
    let manifest = Manifest::read(&built.component, built.manifest.as_deref())?;
    let name = match manifest.name()? {
        Some(name) => name,
        None => project.name.parse().map_err(|error| {
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
    let deployed = client.deploy(name.as_str(), &form, &query);
    Ok(deployed.map_err(cannot(&doing))?.view.revision.handlers)
}
