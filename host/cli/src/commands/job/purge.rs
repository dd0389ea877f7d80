//! `host job purge`: forgets jobs that have ended, before their time is over.

use clap::{ArgGroup, Args};
use host_api::client::Client;
use host_api::filter::FilterQuery;
use host_console::error::{CliError, cannot};
use host_console::ids::each;
use host_console::options::Remote;
use host_console::output::{Output, put_line};
use host_console::plain;
use host_core::job::State;

use super::filter::Filter;
use super::many::{Action, Caution, Many};
use super::parse_id;
use crate::complete;

/// Forget jobs that have ended.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host job purge 01990f3c
  host job purge --all --state completed --until 24h --dry-run
  host job purge --all --state discarded --handler report --yes

Their params, results and attempts are gone for good. Without this, ended jobs are kept for their
retention, by default 7 days.")]
#[command(group(ArgGroup::new("which").required(true).args(["ids", "all"])))]
pub(super) struct Purge {
    /// The jobs' ids or prefixes of them
    #[arg(value_name = "ID", value_parser = parse_id)]
    #[arg(add = complete::jobs())]
    ids: Vec<String>,
    #[command(flatten)]
    many: Many,
    #[command(flatten)]
    remote: Remote,
}

const PURGE: Action = Action {
    name: "purge",
    states: &[],
    allowed: &[State::Completed, State::Cancelled, State::Discarded],
    done: "forgotten",
};

/// Forgets the jobs that match a filter and have ended.
pub(crate) fn matching(remote: &Remote, filter: Filter, caution: &Caution) -> Result<(), CliError> {
    let (client, output) = remote.open()?;
    let many = Many::matching(filter, PURGE.allowed, caution);
    many.run(&client, output, &PURGE, |filter: &FilterQuery| {
        client.purge_jobs(filter)
    })
}

impl Purge {
    pub(super) fn run(self) -> Result<(), CliError> {
        let (client, output) = self.remote.open()?;
        if self.many.is_asked() {
            let purge = |filter: &FilterQuery| client.purge_jobs(filter);
            return self.many.run(&client, output, &PURGE, purge);
        }
        each(&self.ids, |id| purge_one(&client, output, id))
    }
}

fn purge_one(client: &Client, output: Output, id: &str) -> Result<(), CliError> {
    let shown = plain::line(id);
    let doing = format!("purge job {shown}");
    let answer = client.purge_job(id).map_err(cannot(&doing))?;
    output.print_item(&answer.json, &shown, || {
        put_line(&format!("{shown} is purged"))
    })
}
