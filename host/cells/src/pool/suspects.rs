//! Decides which jobs are to blame when a cell dies: the jobs for which it was killed, or every job
//! in it if the cause is not known.

use host_core::cell::RunId;
use host_core::transition::Loss;

use crate::pool::kill_deadline::Overrun;

/// Why a cell died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death<'a> {
    /// The cell ended by itself, or it was killed because it broke the protocol.
    Crashed,
    /// The cell never accepted a message, so no run began in it.
    Unborn,
    /// The cell was killed because these runs did not end in time.
    Killed(&'a [(RunId, Overrun)]),
    /// The host stopped and killed the cell.
    HostStops,
}

/// The verdict on one run of a dead cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The run itself is the cause. Its attempt has ended.
    Overran(Overrun),
    /// The lease of the run is lost.
    Lost(Loss),
}

/// Decides about `run`, one of the `runs` runs that were in a cell when it died.
pub fn verdict(death: Death<'_>, run: RunId, runs: usize) -> Verdict {
    match death {
        Death::Crashed => Verdict::Lost(Loss::CellDied { jobs: runs }),
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
