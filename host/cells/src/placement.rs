//! Which cell takes the next run: the one with the fewest.

use crate::port::CellId;

/// How full one cell is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Which cell.
    pub cell: CellId,
    /// How many runs it has.
    pub runs: u32,
    /// How many it has room for.
    pub slots: u32,
}

/// Chooses cells for at most `wanted` runs, each time the one with the fewest runs and among
/// those the first; fewer if there is no more room.
pub fn spread(mut loads: Vec<Load>, wanted: usize) -> Vec<CellId> {
    let mut chosen = Vec::with_capacity(wanted.min(64));
    while chosen.len() < wanted {
        let Some(load) = loads
            .iter_mut()
            .filter(|load| load.runs < load.slots)
            .min_by_key(|load| load.runs)
        else {
            break;
        };
        load.runs += 1;
        chosen.push(load.cell);
    }
    chosen
}

#[cfg(test)]
mod tests;
