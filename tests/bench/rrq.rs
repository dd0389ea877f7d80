//! A host compared with RRQ's own programs in the same run: as a runner, as an orchestrator, and as an idle
//! listener.

mod frames;
mod idle;
mod jobs;
mod upstream;

use anyhow::Result;

use crate::report::Report;
use crate::{Args, Part};

/// The name of our no-op handler and theirs.
const OURS: &str = "noop";
const THEIRS: &str = "echo";

pub(crate) async fn measure(args: &Args, report: &mut Report) -> Result<()> {
    if args.wants(Part::Frames) {
        tokio::task::block_in_place(|| frames::measure(args, report))?;
    }
    if args.wants(Part::Jobs) {
        jobs::measure(args, report).await?;
    }
    if args.wants(Part::Idle) {
        idle::measure(report).await?;
    }
    Ok(())
}
