//! Decides when a shared cell is started again after one has died: immediately
//! after the first death, later after each further death.

use host_core::time::Time;
use host_runtime::backoff::Backoff;

use crate::port::CellId;

/// The delays from the second death in a row on.
const BACKOFF: Backoff = Backoff::new(100, 10_000);

/// If a cell lived at least this long, in milliseconds, its death counts as the first in a row.
const SOUND_MS: u64 = 60_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CellRespawn {
    cell: Option<CellId>,
    start_at: Time,
    deaths: u32,
}

impl Default for CellRespawn {
    fn default() -> Self {
        Self {
            cell: None,
            start_at: Time(i64::MIN),
            deaths: 0,
        }
    }
}

impl CellRespawn {
    pub(super) fn is_due(&self, now: Time) -> bool {
        self.due().is_some_and(|at| now >= at)
    }

    /// Returns when the next cell starts. `None` while there is a cell.
    pub(super) fn due(&self) -> Option<Time> {
        self.cell.is_none().then_some(self.start_at)
    }

    pub(super) fn started(&mut self, cell: CellId) {
        self.cell = Some(cell);
    }

    /// Records that the cell is used elsewhere. Another may start immediately, unless the cell has not shown
    /// that cells start.
    pub(super) fn release(&mut self, ready: bool) {
        self.cell = None;
        if ready {
            *self = Self::default();
        }
    }

    /// Records the death of the cell, which lived for `lived_ms`.
    pub(super) fn died(&mut self, now: Time, lived_ms: u64) {
        self.cell = None;
        self.deaths = if lived_ms >= SOUND_MS {
            1
        } else {
            self.deaths.saturating_add(1)
        };
        self.start_at = now.plus_ms(backoff_ms(self.deaths));
    }
}

fn backoff_ms(deaths: u32) -> u64 {
    let doublings = deaths.checked_sub(2);
    doublings.map_or(0, |doublings| BACKOFF.nth_ms(doublings))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_deaths_wait_longer() {
        #[rustfmt::skip]
        let table = [(0, 0), (1, 0), (2, 100), (3, 200), (4, 400), (8, 6_400), (9, 10_000), (99, 10_000)];
        for (deaths, wait_ms) in table {
            assert_eq!(backoff_ms(deaths), wait_ms, "after {deaths} deaths");
        }
    }

    #[test]
    fn a_long_life_forgives_earlier_deaths() {
        let mut respawn = CellRespawn::default();
        for now in [0, 10, 20] {
            respawn.started(CellId(1));
            respawn.died(Time(now), 5);
        }
        assert_eq!(respawn.due(), Some(Time(220)));
        respawn.started(CellId(2));
        assert_eq!(respawn.due(), None);
        respawn.died(Time(90_000), SOUND_MS);
        assert_eq!(respawn.due(), Some(Time(90_000)));
    }
}
