//! `host component rollback`: makes an earlier revision the current one.

use clap::Args;
use host_api::client::Client;
use host_api::component::RollbackBody;
use host_console::error::{CliError, Exit, cannot_find};
use host_console::options::Remote;
use host_console::output::put_line;
use host_console::progress::Progress;
use host_console::{human, plain};

use super::{fetch, hint_removed, put_changed_limits, put_grants, put_removed};
use crate::complete;

/// Go back to an earlier revision.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host component rollback basics
  host component rollback basics 3
  host component rollback basics 3 --force
  host component rollback basics 3 --accept-grants")]
pub(super) struct Rollback {
    /// The component's name
    #[arg(add = complete::components())]
    name: String,
    /// The revision to go back to [default: the newest one before the current]
    #[arg(value_parser = human::whole::<u32>(1, u32::MAX.into()))]
    revision: Option<u32>,
    /// Roll back even if waiting jobs do not match the schema of that revision; they fail when they start
    #[arg(long)]
    force: bool,
    /// Accept grants of that revision that the current one does not have
    #[arg(long)]
    accept_grants: bool,
    #[command(flatten)]
    remote: Remote,
}

impl Rollback {
    pub(super) fn run(self) -> Result<(), CliError> {
        let (client, output) = self.remote.open()?;
        let name = plain::line(&self.name);
        let doing = format!("roll back component {name}");
        let revision = match self.revision {
            Some(revision) => revision,
            None => before_current(&client, &doing, &self.name)?,
        };
        let body = RollbackBody {
            revision,
            force: self.force,
            accept_grants: self.accept_grants,
        };
        let waiting = Progress::new(output, &format!("rolling back {name}"));
        let answer = client.roll_back(&self.name, &body);
        drop(waiting);
        let next = format!(
            "`host component show {name}` lists the revisions, `host component ls` lists \
             the components"
        );
        let answer = answer.map_err(cannot_find(&doing, &next))?;
        let rolled_back = &answer.view;
        output.print_item(&answer.json, &name, || {
            put_line(&format!("{name} is at revision {revision}"))?;
            put_removed(&rolled_back.handlers_removed)?;
            put_grants(rolled_back)?;
            put_changed_limits(&rolled_back.limits_changed)
        })?;
        hint_removed(output, &rolled_back.handlers_removed);
        output.hint("running attempts keep the revision they started with");
        Ok(())
    }
}

/// Returns the newest revision that is older than the current one.
fn before_current(client: &Client, doing: &str, name: &str) -> Result<u32, CliError> {
    let view = fetch(client, doing, name)?.view;
    let earlier = view.revisions.iter().map(|kept| kept.revision.revision);
    let before = earlier.filter(|revision| *revision < view.current).max();
    before.ok_or_else(|| {
        let cause = format!(
            "no revision is older than {}, the current one",
            view.current
        );
        CliError::new(Exit::Failed, doing, cause).next(format!(
            "`host component show {}` lists the revisions; name the one to go to",
            plain::line(name)
        ))
    })
}
