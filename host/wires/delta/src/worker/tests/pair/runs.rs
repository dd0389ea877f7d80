//! Runs many histories, and checks that they are of all kinds.

use std::collections::BTreeMap;

use host_testing::histories;

use super::{Faults, LINES, Sim};

#[test]
fn histories_with_faults_end_once() {
    run_histories(1, histories(500, 10_000));
}

#[test]
fn histories_of_two_nodes_end_once() {
    run_histories(2, histories(300, 10_000));
}

fn run_histories(nodes: usize, histories: u32) {
    let mut states = BTreeMap::new();
    let mut lost = 0;
    let mut faults = Faults::default();
    let (mut whole_logs, mut delayed, mut stopped) = (0, 0, 0);
    for seed in 0..histories {
        let mut sim = Sim::new(u64::from(seed), nodes);
        sim.run();
        sim.check();
        sim.check_log();
        sim.check_occupied();
        stopped += sim.stopped;
        faults.lost += sim.faults.lost;
        faults.late += sim.faults.late;
        faults.copied += sim.faults.copied;
        faults.overtaken += sim.faults.overtaken;
        delayed += u32::from(sim.delayed > 0);
        whole_logs += u32::from(sim.model.logged().len() as u64 >= 2 * LINES);
        *states.entry(sim.model.state(sim.job)).or_insert(0) += 1;
        lost += u32::from(sim.model.attempts(sim.job).contains("lost"));
    }
    // The histories are of all kinds.
    assert_eq!(states.len(), 3, "{states:?}");
    let (few, many) = (histories / 100, histories / 10);
    assert!(states.values().all(|count| *count > few), "{states:?}");
    assert!(lost > many, "{lost}");
    assert!(whole_logs > many, "{whole_logs}");
    assert!(delayed > many, "{delayed}");
    assert!(stopped > many, "{stopped}");
    let every = [faults.lost, faults.late, faults.copied, faults.overtaken];
    assert!(every.iter().all(|count| *count > many), "{faults:?}");
}
