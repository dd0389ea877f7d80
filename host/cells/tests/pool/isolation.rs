//! Cells of one component each: none ever gets two, and their number is limited.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

const ISOLATED: Shape = Shape {
    isolation: Isolation::Component,
    ..SHAPE
};

/// What `Isolation::cells_max` gives for two cells.
const CELLS_MAX: usize = 16;

fn bench() -> Bench {
    let mut bench = Bench::with(ISOLATED, true);
    bench.pool.set_components(100);
    bench
}

impl Bench {
    fn run_of(&mut self, now: i64, component: u64, handler: &str) {
        let slot = self.pool.offer(1)[0].clone();
        let component = ComponentKey(component);
        self.begin_of(now, component, &slot, start_of(handler), None);
        self.turn(now);
    }

    fn turn(&mut self, now: i64) {
        self.pool.tick(Time(now));
        while !self.handle_events(now).is_empty() {}
    }

    /// Checks that no cell was given two components, and returns the cells of each.
    fn cells_of_components(&self) -> BTreeMap<ComponentKey, BTreeSet<CellId>> {
        let mut of_cell = BTreeMap::new();
        let mut cells: BTreeMap<_, BTreeSet<CellId>> = BTreeMap::new();
        for (cell, component) in self.record.loaded() {
            let first = *of_cell.entry(cell).or_insert(component);
            assert_eq!(first, component, "{cell:?} has two components");
            cells.entry(component).or_default().insert(cell);
        }
        cells
    }

    fn live(&self) -> usize {
        self.record.alive()
    }
}

#[test]
fn runs_of_a_component_share_its_cells_and_no_others() {
    let mut bench = bench();
    assert_eq!(bench.live(), 1, "one is started ahead");
    for now in 0..5 {
        bench.run_of(now, 1, "noop");
        bench.run_of(now, 2, "noop");
    }
    let cells = bench.cells_of_components();
    assert_eq!(cells[&ComponentKey(1)].len(), 1, "it is used again");
    assert_eq!(bench.live(), 3, "two and the one ahead");
    let due = bench.pool.due();
    assert_eq!(due, Some(Time(60_004)), "the idle ones end");
    bench.turn(60_003);
    assert_eq!(bench.live(), 3);
    bench.turn(60_004);
    assert_eq!(bench.live(), 1);
}

#[test]
fn a_busy_component_gets_as_many_cells_as_are_shared() {
    let mut bench = bench();
    bench.run_of(0, 2, "hang");
    for _ in 0..7 {
        bench.run_of(0, 1, "hang");
    }
    let cells = bench.cells_of_components();
    assert_eq!(cells[&ComponentKey(1)].len(), 2);
    assert_eq!(cells[&ComponentKey(2)].len(), 1);
    assert_eq!(bench.pool.free(), 0, "all slots are taken");
}

#[test]
fn the_cell_that_was_idle_longest_makes_room() {
    let mut bench = bench();
    for component in 0..40 {
        let now = i64::try_from(component).unwrap();
        bench.run_of(now, component, "noop");
        assert!(bench.live() <= CELLS_MAX + 1, "{}", bench.live());
    }
    let cells = bench.cells_of_components();
    bench.run_of(50, 39, "noop");
    assert_eq!(
        bench.cells_of_components(),
        cells,
        "the latest has its cell"
    );
    bench.run_of(51, 0, "noop");
    assert_eq!(bench.cells_of_components()[&ComponentKey(0)].len(), 2);
}

#[test]
fn no_more_components_run_at_once_than_there_may_be_cells() {
    let mut bench = Bench::with(
        Shape {
            slots: 16,
            ..ISOLATED
        },
        true,
    );
    bench.pool.set_components(100);
    for component in 0..CELLS_MAX as u64 {
        assert!(bench.pool.free() > 0);
        bench.run_of(0, component, "hang");
    }
    assert_eq!(bench.pool.free(), 0);
    bench.pool.set_components(CELLS_MAX - SHAPE.cells);
    assert_eq!(bench.pool.free(), 16, "there are not more than have cells");
}

#[test]
fn cells_that_do_not_start_are_not_started_for_each_run() {
    let mut bench = Bench::with(ISOLATED, false);
    assert_eq!(bench.pool.free(), 0);
    bench.turn(15_000);
    bench.turn(15_000);
    let started = bench.count(&CellMessage::Started("cell-1".to_owned()));
    assert_eq!((bench.pool.free(), started), (0, 2));
}

#[test]
fn a_component_that_nobody_needs_leaves_its_cell() {
    let mut bench = bench();
    bench.run_of(0, 1, "noop");
    bench.run_of(0, 2, "hang");
    bench.pool.keep_loaded(|_| false);
    bench.turn(1);
    assert_eq!(bench.live(), 2, "the one that runs, and the one ahead");
}

/// The first handler is of component 7, the steps are of another.
#[test]
fn the_steps_of_a_chain_run_in_cells_of_their_components() {
    for apart in [false, true] {
        let mut bench = bench();
        let slot = match bench.pool.offer_apart(Time(0)).pop() {
            Some(slot) if apart => slot,
            _ => CellSlot::OfComponent,
        };
        let (start, chain) = chained(&["echo", "noop", "echo"]);
        bench.begin(0, &slot, start, chain);
        let mut ended = Vec::new();
        for now in 1..=6 {
            ended.extend(bench.handle_events(now));
        }
        assert_eq!(short(&ended), texts(&[(1, "completed")]), "{slot:?}");
        assert_eq!(bench.cells_of_components().len(), 2, "{slot:?}");
        assert_eq!(bench.pool.runs(), 0);
        assert_eq!(bench.pool.free_apart(Time(6)), SHAPE.cells, "none is left");
    }
}

#[test]
fn a_chain_is_stopped_in_the_cell_of_its_step() {
    let mut bench = bench();
    let (start, chain) = chained(&["noop", "ignore"]);
    let lease = bench.begin(0, &CellSlot::OfComponent, start, chain);
    for now in 1..5 {
        bench.handle_events(now);
    }
    bench.pool.stop(Time(5), lease, Some(0), "enough");
    bench.pool.tick(Time(255));
    assert_eq!(short(&bench.handle_events(255)), texts(&[(1, "cancelled")]));
    assert_eq!(bench.count(&CellMessage::Killed("cell-2".to_owned())), 1);
    assert_eq!(bench.count(&CellMessage::Killed("cell-1".to_owned())), 0);
}

#[derive(Clone, Debug)]
enum Deed {
    Run(u64, &'static str),
    Chain(&'static [&'static str]),
    Group([u64; 2]),
    Pass(i64),
    Undeploy(u64),
}

fn deed() -> impl Strategy<Value = Deed> {
    let handlers = prop::sample::select(vec!["noop", "hang", "ignore", "crash", "lie"]);
    let steps: Vec<&'static [&'static str]> = vec![&["echo", "noop"], &["hang"], &["crash"]];
    prop_oneof![
        8 => (0..30_u64, handlers).prop_map(|(component, name)| Deed::Run(component, name)),
        2 => prop::sample::select(steps).prop_map(Deed::Chain),
        1 => prop::array::uniform2(0..30_u64).prop_map(Deed::Group),
        2 => (1..90_000_i64).prop_map(Deed::Pass),
        1 => (0..30_u64).prop_map(Deed::Undeploy),
    ]
}

proptest! {
    #[test]
    fn no_cell_ever_has_two_components(deeds in prop::collection::vec(deed(), 1..80)) {
        let mut bench = bench();
        let mut now = 0;
        for deed in deeds {
            let slot = bench.pool.offer(1).first().cloned();
            match (deed, slot) {
                (Deed::Run(component, handler), Some(slot)) => {
                    let start = start_of(handler);
                    bench.begin_of(now, ComponentKey(component), &slot, start, None);
                }
                (Deed::Chain(steps), Some(slot)) => {
                    let (start, chain) = chained(steps);
                    bench.begin(now, &slot, start, chain);
                }
                (Deed::Group(components), _) => {
                    let Some(slot) = bench.pool.offer_apart(Time(now)).pop() else {
                        continue;
                    };
                    for component in components {
                        let (start, component) = (start_of("noop"), ComponentKey(component));
                        bench.begin_of(now, component, &slot, start, None);
                    }
                }
                (Deed::Pass(ms), _) => now += ms,
                (Deed::Undeploy(component), _) => {
                    bench.pool.keep_loaded(|key| key != ComponentKey(component));
                }
                _ => {}
            }
            bench.pool.tick(Time(now));
            bench.handle_events(now);
            // A pool also checks at each tick that a run is in one cell.
            prop_assert!(bench.live() <= CELLS_MAX + 1 + 3 * SHAPE.cells);
        }
        bench.cells_of_components();
        // Everything ends.
        for _ in 0..20 {
            now += 60_000;
            bench.turn(now);
        }
        prop_assert_eq!((bench.pool.runs(), bench.live()), (0, 1));
    }
}
