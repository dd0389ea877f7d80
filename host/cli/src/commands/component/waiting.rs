//! Waits until all nodes can run a revision that was just deployed.

use std::time::Duration;

use host_api::client::Client;
use host_api::component::ReadinessView;
use host_console::error::{CliError, Exit};
use host_console::output::Output;
use host_console::progress::Spinner;
use host_console::{human, plain, waiting};
use host_core::seconds::Seconds;

use super::fetch;

/// How often the component is read, in milliseconds.
const POLL_MS: u64 = 300;

/// Waits until all nodes that have not gone can run `revision`. Fails if one cannot, once the others have
/// compiled it.
pub(in crate::commands) fn all_ready(
    client: &Client,
    output: Output,
    name: &str,
    revision: u32,
    timeout: Seconds,
) -> Result<(), CliError> {
    let shown = plain::line(name);
    let doing = format!("run revision {revision} of {shown} on all nodes");
    let ends = waiting::now() + Duration::from_millis(timeout.ms);
    let spinner = Spinner::new(output, &format!("waiting for the nodes to compile {shown}"));
    loop {
        let view = fetch(client, &doing, name)?.view;
        if view.current != revision {
            let cause = format!("revision {} is current now", view.current);
            return Err(CliError::new(Exit::Failed, doing, cause));
        }
        let is = |state: &'static str| {
            let nodes = view.nodes.iter();
            nodes.filter(move |node| node.component == state)
        };
        let (ready, all) = (is("ready").count(), view.nodes.len());
        spinner.say(&format!("{ready} of {all} nodes can run {shown}"));
        let failed: Vec<&ReadinessView> = is("failed").collect();
        if ready + failed.len() == all {
            drop(spinner);
            if failed.is_empty() {
                output.note(&format!("{ready} of {all} nodes can run {shown}"));
                return Ok(());
            }
            let cause = format!("{ready} of {all} can: {}", reasons(&failed));
            let error = CliError::new(Exit::Failed, doing, cause);
            return Err(error.next("jobs run on the other nodes; a node tries again by itself"));
        }
        if waiting::now() >= ends {
            let all_of_them = view.nodes.iter();
            let left: Vec<&ReadinessView> =
                all_of_them.filter(|it| it.component != "ready").collect();
            let cause = format!(
                "{ready} of {all} can after {}; missing: {}",
                human::took(timeout.ms),
                reasons(&left)
            );
            let error = CliError::new(Exit::WaitRanOut, doing, cause);
            return Err(error.next(format!(
                "`host component show {shown}` shows their progress"
            )));
        }
        waiting::pause(POLL_MS);
    }
}

fn reasons(nodes: &[&ReadinessView]) -> String {
    let one = |node: &&ReadinessView| {
        let own_name = node.name.as_deref().filter(|name| !name.is_empty());
        let name = plain::line(own_name.unwrap_or(&node.id)).into_owned();
        match &node.reason {
            Some(reason) => format!(
                "{name} ({}): {}",
                plain::line(&node.id),
                plain::line(reason)
            ),
            None => format!("{name} ({})", plain::line(&node.id)),
        }
    };
    let all: Vec<String> = nodes.iter().map(one).collect();
    all.join("; ")
}
