//! Arco's contract: tasks through our own worker and control plane, the cost of heartbeats, and how soon our
//! worker stops a task that ignores its cancel.

mod heartbeats;
mod peer;
mod stops;
mod tasks;

use std::fmt::Write as _;

use anyhow::{Context, Result};

use crate::report::Report;
use crate::{Args, Part, Stage};

/// The secret of dispatches.
const SECRET: &str = "secret-of-the-bench";

pub(crate) async fn measure(args: &Args, report: &mut Report) -> Result<()> {
    if args.wants(Part::Tasks) {
        tasks::measure(args, report).await?;
    }
    if args.wants(Part::Heartbeats) {
        heartbeats::measure(args, report).await?;
    }
    if args.wants(Part::Stops) {
        stops::measure(args, report).await?;
    }
    Ok(())
}

/// Starts a control plane with `settings` of its section, and its workers: names, URLs and how many
/// attempts each may have.
fn control_plane(settings: &str, workers: &[(String, String, usize)]) -> Result<Stage> {
    let folder = crate::build_folder()?;
    let secret = tempfile::NamedTempFile::new_in(&folder).context("cannot make a file")?;
    std::fs::write(&secret, SECRET).context("cannot write a secret")?;
    let mut text = settings.to_owned();
    for (name, url, in_flight) in workers {
        let secret = secret.path().display();
        write!(
            text,
            "[protocol.arco.workers.{name}]\nurl = \"{url}\"\nmax_in_flight = {in_flight}\n\
             secret_file = \"{secret}\"\n"
        )?;
    }
    let config = tempfile::NamedTempFile::new_in(&folder).context("cannot make a file")?;
    std::fs::write(&config, text).context("cannot write the configuration")?;
    let config = config.path().display().to_string();
    Stage::with(&[], vec!["--config".to_owned(), config])
}
