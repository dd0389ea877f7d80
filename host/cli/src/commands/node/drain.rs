//! `host node drain` and its undo.

use std::time::Duration;

use clap::Args;
use host_api::client::{Answer, Client};
use host_api::node::NodeView;
use host_console::error::{CliError, Exit, cannot, cannot_find};
use host_console::options::Remote;
use host_console::output::{Output, put_line};
use host_console::progress::Spinner;
use host_console::{human, plain, waiting};
use host_core::seconds::Seconds;

use crate::complete;

use super::{LISTED, NodeArgs, display_name, running};

/// How often a draining node is read, in milliseconds.
const POLL_MS: u64 = 500;

/// Drain a node: it starts no more jobs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host node drain 0199a0b0
  host node drain db-worker-3 --wait --timeout 10m && ssh db-worker-3 systemctl stop host

A node stays drained across restarts, until `host node resume`. What runs there has its usual limits and
is not cut short; to do that, stop the host.")]
pub(super) struct Drain {
    /// The node's id or a prefix of it, or the name of its machine
    #[arg(add = complete::nodes())]
    id: String,
    /// Wait until nothing runs there
    #[arg(long)]
    wait: bool,
    /// The longest time to wait, such as 90s or 10m [default: as long as it takes]
    #[arg(long, value_name = "DURATION", requires = "wait", value_parser = human::parse_duration)]
    timeout: Option<Seconds>,
    #[command(flatten)]
    remote: Remote,
}

impl Drain {
    pub(super) fn run(&self) -> Result<(), CliError> {
        let (client, output) = self.remote.open()?;
        let doing = format!("drain node {}", plain::line(&self.id));
        let answer = client.drain_node(&self.id);
        let Answer {
            view: asked, json, ..
        } = answer.map_err(cannot_find(&doing, LISTED))?;
        if let Some(note) = &asked.note {
            output.note(&plain::line(note));
        }
        if self.wait {
            return self.waited(&client, output, &doing, asked.node);
        }
        output.print_item(&json, &plain::line(&asked.node.id), || {
            put_line(&progress(&asked.node))?;
            let id = plain::line(&asked.node.id);
            output.hint(&format!("`host node show {id}` shows what is left"));
            Ok(())
        })
    }

    /// Waits until nothing runs at the node.
    fn waited(
        &self,
        client: &Client,
        output: Output,
        doing: &str,
        mut node: NodeView,
    ) -> Result<(), CliError> {
        let ends = self
            .timeout
            .map(|timeout| waiting::now() + Duration::from_millis(timeout.ms));
        let spinner = Spinner::new(output, &format!("draining {}", display_name(&node)));
        loop {
            let answer = client.node(&node.id).map_err(cannot(doing))?;
            node = answer.view;
            match node.state.as_str() {
                "drained" | "gone" => {
                    drop(spinner);
                    return output.print_item(&answer.json, &plain::line(&node.id), || {
                        put_line(&progress(&node))
                    });
                }
                "live" => {
                    let error =
                        CliError::new(Exit::Failed, doing, "it was resumed before it was empty");
                    return Err(error);
                }
                _ => {}
            }
            if ends.is_some_and(|ends| waiting::now() >= ends) {
                let left = format!("it still runs {}", running(&node.running));
                let error = CliError::new(Exit::WaitRanOut, doing, plain::line(&left));
                return Err(error.next("it starts no more jobs; wait again, or stop the host"));
            }
            waiting::pause(POLL_MS);
        }
    }
}

/// Lets a node start jobs again.
pub(super) fn resume(named: &NodeArgs) -> Result<(), CliError> {
    let (client, output) = named.remote.open()?;
    let doing = format!("resume node {}", plain::line(&named.id));
    let answer = client
        .resume_node(&named.id)
        .map_err(cannot_find(&doing, LISTED))?;
    let node = &answer.view.node;
    output.print_item(&answer.json, &plain::line(&node.id), || {
        put_line(&match node.state.as_str() {
            "gone" => format!(
                "{} is gone; it starts jobs when it is back",
                display_name(node)
            ),
            _ => format!("{} starts jobs", display_name(node)),
        })
    })
}

/// Describes how far a drain is.
fn progress(node: &NodeView) -> String {
    let name = display_name(node);
    match node.state.as_str() {
        "drained" => format!("{name} is drained: nothing runs there"),
        "gone" => format!("{name} is gone: nothing runs there"),
        _ => format!(
            "{name} starts no more jobs; still running: {}",
            plain::line(&running(&node.running))
        ),
    }
}
