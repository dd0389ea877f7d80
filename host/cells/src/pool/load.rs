//! Decides which cell gets the next run: the one with the fewest runs.

use crate::port::CellId;

/// How many runs one cell has, and how many it can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    pub cell: CellId,
    /// How many runs it has now.
    pub runs: u32,
    /// How many runs it can have at a time.
    pub slots: u32,
}

/// Chooses cells for at most `wanted` runs. Each run goes to the cell with the fewest runs, and to
/// the first of them if several have as few. Returns fewer cells if there are not enough free
/// slots.
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
