//! Who is to blame when a cell dies: the jobs it was killed for, or, if nobody knows, every job
//! that was in it.

use host_core::cell::RunId;
use host_core::transition::Loss;

use crate::ladder::Overrun;

/// How a cell came to die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death<'a> {
    /// By itself, or because it broke the rules of the conversation.
    Crashed,
    /// It never took a message, so that no run began in it.
    Unborn,
    /// The ladder killed it for these runs.
    Killed(&'a [(RunId, Overrun)]),
    /// The host stops and killed it.
    HostStops,
}

/// What becomes of one run of a dead cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its own doing: the attempt has ended like this.
    Overran(Overrun),
    /// Its lease is lost.
    Lost(Loss),
}

/// Judges `run`, one of `runs` that were in a cell when it died.
pub fn verdict(death: Death<'_>, run: RunId, runs: usize) -> Verdict {
    match death {
        Death::Crashed => Verdict::Lost(Loss::CellDied { alone: runs == 1 }),
        Death::Unborn => Verdict::Lost(Loss::Innocent),
        Death::HostStops => Verdict::Lost(Loss::HostRestarted),
        Death::Killed(culprits) => culprits
            .iter()
            .find(|(culprit, _)| *culprit == run)
            .map_or(Verdict::Lost(Loss::Innocent), |(_, overrun)| {
                Verdict::Overran(*overrun)
            }),
    }
}

#[cfg(test)]
mod tests;
