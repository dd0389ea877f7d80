//! Nodes that let the same schedules fire at the same time, each by a clock of its own: each nominal time ends once, and the
//! counts are those of the firings and of the jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64, Ordering};

use host_core::id::{JobId, NodeId};
use host_core::lease::Fence;
use host_core::time::Time;
use host_engine::lease::{Claim, Complete};
use host_engine::schedule::{
    CatchUp, FIRINGS_KEPT, Fate, Firing, FiringCounts, KeptSchedule, Overlap, Schedule,
    ScheduleRefusal, When,
};
use host_engine::table::Range;
use host_engine::{Command, Rejection, Reply, Store as _, lease, schedule};
use host_store::postgres::PostgresStore;
use proptest::prelude::*;
use uuid::Uuid;

use crate::jobs::{NOW, ask, claim, claimed, complete, id, lease, read, returned};
use crate::postgres::{TESTED, target};
use crate::schedules::{every, fire, set};
use crate::server::Schema;

/// What nodes do by their clocks begins at this time.
const START: Time = Time(1_767_222_000_000);

/// A node that lets schedules fire and runs their jobs.
struct Node {
    store: PostgresStore,
    id: NodeId,
    /// The number of its next lease and of its next job.
    next: u128,
    running: Vec<(JobId, u128)>,
    fired: Vec<(usize, Firing)>,
}

impl Node {
    fn new(schema: &Schema, n: u128) -> Self {
        let node = NodeId(Uuid::from_u128(n));
        Self {
            store: PostgresStore::open(&target(schema), node, TESTED).unwrap(),
            id: node,
            next: n << 32,
            running: Vec::new(),
            fired: Vec::new(),
        }
    }

    /// Lets a schedule fire. Like a host, it reads the clock after the schedule.
    fn fire(
        &mut self,
        schedules: &[Schedule],
        number: usize,
        wall: impl FnOnce() -> Time,
        jobs: u8,
    ) {
        let ids: Vec<JobId> = (0..jobs.into()).map(|n| id(self.next + n)).collect();
        self.next += u128::from(jobs);
        let name = &schedules[number].name;
        let mut fire = fire(&self.store, name, START, &ids, None);
        if let Command::Schedule(schedule::Command::Fire(fire)) = &mut fire {
            fire.wall = wall();
        }
        match ask(&mut self.store, NOW, fire) {
            Ok(Reply::Fired(firings)) => {
                self.fired
                    .extend(firings.into_iter().map(|it| (number, it)));
            }
            other => assert_eq!(
                other,
                Err(Rejection::Schedule(ScheduleRefusal::Changed(name.clone())))
            ),
        }
    }

    /// Ends what runs, or a part of it, and claims.
    fn run(&mut self, ends: usize) {
        for (job, lease_id) in self.running.drain(..ends.min(self.running.len())) {
            let mut end = complete(0, 0, returned());
            if let Command::Lease(lease::Command::Complete(Complete { job: of, fence, .. })) =
                &mut end
            {
                (*of, *fence) = (job, Fence::Lease(lease(lease_id)));
            }
            ask(&mut self.store, NOW, end).unwrap();
        }
        let mut claim = claim([self.next, self.next + 1], false);
        self.next += 2;
        if let Command::Lease(lease::Command::Claim(Claim { node, .. })) = &mut claim {
            *node = self.id;
        }
        for job in claimed(&mut self.store, NOW, claim) {
            let lease = job.lifecycle.lease.unwrap().id;
            self.running.push((job.lifecycle.id, lease.0.as_u128()));
        }
    }
}

/// Returns what became of each nominal time in the end, and how often each thing has. The times are those of the calendar.
fn ends_of(schedule: &Schedule, firings: &[Firing]) -> (BTreeMap<Time, Fate>, FiringCounts) {
    let (mut ends, mut counts) = (BTreeMap::new(), FiringCounts::default());
    let mut end = |nominal, fate: &Fate| {
        let before = ends.insert(nominal, fate.clone());
        assert_eq!(before, None, "{nominal:?} ends once");
    };
    for Firing { nominal, at, fate } in firings {
        match fate {
            Fate::Held => continue,
            Fate::Fired(_) => {
                counts.fired += 1;
                counts.late += u64::from(schedule.is_late(*nominal, *at));
            }
            Fate::Skipped => counts.skipped += 1,
            Fate::Failed(_) => counts.failed += 1,
            Fate::Missed(times) => {
                counts.missed += times;
                let all: Vec<Time> = schedule
                    .coming(START)
                    .take_while(|it| it <= nominal)
                    .collect();
                let others = all.len() - usize::try_from(*times).unwrap();
                all[others..all.len() - 1]
                    .iter()
                    .for_each(|it| end(*it, fate));
            }
        }
        end(*nominal, fate);
    }
    (ends, counts)
}

fn schedule(n: usize, (when, overlap, catch_up, window_s): (u8, u8, u8, u64)) -> Schedule {
    let cron = |pattern: &str| When::Cron(vec![pattern.to_owned()]);
    let overlaps = [
        Overlap::Skip,
        Overlap::QueueOne,
        Overlap::QueueAll,
        Overlap::Cancel,
        Overlap::Allow,
    ];
    let catch_ups = [CatchUp::None, CatchUp::Last, CatchUp::All];
    Schedule {
        when: match when {
            0 => cron("*/7 * * * * *"),
            1 => cron("* * * * *"),
            _ => When::Every {
                ms: 3_000,
                phase_ms: 1_000,
            },
        },
        catch_up: catch_ups[usize::from(catch_up)],
        window_ms: window_s * 1_000,
        ..every(
            &format!("schedule-{n}"),
            1_000,
            overlaps[usize::from(overlap)],
        )
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn nodes_that_race_for_firings_end_each_nominal_time_once(
        plans in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 10..30), 2..4),
        kinds in proptest::collection::vec((0_u8..3, 0_u8..5, 0_u8..3, 5_u64..90), 2..4),
    ) {
        let schema = Schema::new();
        let schedules: Vec<Schedule> =
            kinds.into_iter().enumerate().map(|(n, kind)| schedule(n, kind)).collect();
        let mut first = Node::new(&schema, 98);
        for schedule in &schedules {
            ask(&mut first.store, NOW, set(schedule.clone(), START)).unwrap();
        }
        let time = AtomicI64::new(START.0);
        let mut fired = std::thread::scope(|scope| {
            let nodes = (1..).zip(&plans).map(|(n, plan)| {
                let (schema, schedules, time) = (&schema, &schedules, &time);
                scope.spawn(move || {
                    let mut node = Node::new(schema, n);
                    for choice in plan {
                        let step = i64::from(choice / 16);
                        // The hosts' clocks are up to two seconds apart.
                        let skew = i64::try_from(n).unwrap() * 1_000;
                        let later = step * step * 100;
                        let wall = || Time(time.fetch_add(later, Ordering::Relaxed) + skew);
                        let number = usize::from(*choice) % schedules.len();
                        node.fire(schedules, number, wall, choice % 4);
                        node.run(usize::from(choice % 3));
                    }
                    while !node.running.is_empty() {
                        node.run(9);
                    }
                    node.fired
                })
            });
            let nodes: Vec<_> = nodes.collect();
            nodes.into_iter().flat_map(|node| node.join().unwrap()).collect::<Vec<_>>()
        });
        // Until nothing is due and nothing waits.
        let end = Time(time.into_inner() + 4_000);
        loop {
            for number in 0..schedules.len() {
                first.fire(&schedules, number, || end, 50);
            }
            first.run(9);
            let reader = first.store.reader().unwrap();
            let mut all = reader.list::<KeptSchedule>(Range::all().first(9)).unwrap().into_iter();
            let is_over = all.all(|it| !it.holds() && it.progress.next.is_none_or(|it| it > end));
            if is_over && first.running.is_empty() {
                break;
            }
        }
        fired.append(&mut first.fired);
        let all = read(&*first.store.reader().unwrap());
        for (number, schedule) in schedules.iter().enumerate() {
            let of = fired.iter().filter(|(it, _)| *it == number).map(|(_, it)| it.clone());
            let firings: Vec<Firing> = of.collect();
            let (ends, counts) = ends_of(schedule, &firings);
            let nominals = schedule.coming(START).take_while(|it| *it <= end);
            prop_assert!(ends.keys().copied().eq(nominals), "{:?}", ends);
            let (kept, latest) = &all.schedules[number];
            prop_assert_eq!(kept.progress.counts, counts);
            prop_assert_eq!(kept.progress.recorded, firings.len() as u64);
            prop_assert_eq!(latest.len() as u64, FIRINGS_KEPT.min(firings.len() as u64));
            prop_assert!(latest.iter().all(|it| firings.contains(it)));
            let rows = all.jobs.iter().filter_map(|(detail, _)| {
                let mut attributes = detail.payload.attributes.iter();
                let is_of = attributes.any(|(_, value)| *value == schedule.name.to_string());
                is_of.then_some(detail.lifecycle.id)
            });
            let started = ends.values().filter_map(|fate| match fate {
                Fate::Fired(job) => Some(*job),
                _ => None,
            });
            prop_assert_eq!(rows.collect::<BTreeSet<_>>(), started.collect::<BTreeSet<_>>());
        }
    }
}
