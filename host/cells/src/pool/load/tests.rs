//! Which cells are chosen for given loads.

use super::*;

#[test]
fn the_least_loaded_cell_is_next() {
    #[rustfmt::skip]
    let table: &[(&[(u32, u32)], usize, &[u64])] = &[
        // (runs, slots) of cells 0, 1, …   wanted   chosen
        (&[],                               3,       &[]),
        (&[(0, 4), (0, 4)],                 0,       &[]),
        (&[(0, 4), (0, 4)],                 1,       &[0]),
        (&[(0, 4), (0, 4)],                 4,       &[0, 1, 0, 1]),
        (&[(3, 4), (0, 4)],                 3,       &[1, 1, 1]),
        (&[(3, 4), (0, 4)],                 9,       &[1, 1, 1, 0, 1]),
        (&[(4, 4), (4, 4)],                 1,       &[]),
        (&[(0, 1), (5, 8)],                 3,       &[0, 1, 1]),
        (&[(9, 4), (0, 1)],                 3,       &[1]),
    ];
    for (loads, wanted, chosen) in table {
        let cells = (0..).map(CellId).zip(loads.iter());
        let loads = cells.map(|(cell, (runs, slots))| Load {
            cell,
            runs: *runs,
            slots: *slots,
        });
        let got: Vec<u64> = spread(loads.collect(), *wanted)
            .into_iter()
            .map(|cell| cell.0)
            .collect();
        assert_eq!(got, *chosen);
    }
}
