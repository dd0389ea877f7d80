//! Hosts that share a database: how they see each other, and how one takes over from a dead one.

use std::ops::RangeInclusive;
use std::sync::Arc;

use host_core::id::NodeId;
use host_core::job::State;
use host_core::outcome::Progress;
use host_core::policy::Policy;
use host_core::time::Time;
use host_engine::node::{
    ClusterView, Component, Dead, HeartbeatRow, Life, NodeInfo, Offer, Reported, TAKEN_BACK_MAX,
    TakeOver, TakenBack,
};
use host_engine::{Command, Heartbeat as _, Others as _, Reply, Store as _, StoreError};
use host_store::postgres::PostgresStore;
use host_store::postgres::nodes::Beats;
use host_store::postgres::others::PostgresOthers;
use uuid::Uuid;

use crate::jobs::{NOW, ask, claim, claimed, enqueue, id, job};
use crate::postgres::{TESTED, target};
use crate::server::Schema;

/// The node of the claims of these tests, and another.
const CLAIMS: NodeId = crate::jobs::NODE;
const OTHER: NodeId = NodeId(Uuid::from_u128(7));

fn enter(schema: &Schema, node: NodeId) -> (PostgresStore, Beats) {
    let store = PostgresStore::open(&target(schema), node, TESTED).unwrap();
    let beats = store.heartbeat();
    (store, beats)
}

/// Returns how another node sees `node`.
fn seen(by: &mut Beats, node: NodeId) -> HeartbeatRow {
    let roll = beat(by).unwrap();
    roll.nodes.into_iter().find(|seen| seen.id == node).unwrap()
}

fn dead(seen: &HeartbeatRow) -> Command {
    let dead = Dead {
        node: seen.id,
        epoch: seen.epoch,
        beat: seen.beat,
    };
    Command::from(TakeOver { dead, after: 0 })
}

/// Makes a node take over, one slice of it. Returns how many jobs it took back, and the next slice.
fn take_some(store: &mut PostgresStore, slice: Command) -> (u32, Option<Command>) {
    match ask(store, NOW, slice).unwrap() {
        Reply::TakenBack(TakenBack { jobs, next }) => {
            let next = next.map(|(after, dead)| {
                let dead = dead.unwrap();
                Command::from(TakeOver { dead, after })
            });
            (jobs, next)
        }
        other => panic!("{other:?}"),
    }
}

/// Makes a node take over. Returns how many jobs it took back.
fn take(store: &mut PostgresStore, dead: Command) -> u32 {
    let (mut taken, mut next) = (0, Some(dead));
    while let Some(slice) = next {
        let (jobs, rest) = take_some(store, slice);
        taken += jobs;
        next = rest;
    }
    taken
}

/// A takeover runs in slices. If one stops halfway, another node starts over and finishes; a node that comes back in the
/// middle keeps what it claims.
#[test]
fn a_takeover_goes_in_slices_and_ends_though_who_began_it_dies() {
    let schema = Schema::new();
    let (mut first, _) = enter(&schema, CLAIMS);
    let (mut second, mut beats) = enter(&schema, OTHER);
    let jobs = 2 * TAKEN_BACK_MAX as u128 + 1;
    let run = |store: &mut PostgresStore, leases: RangeInclusive<u128>| {
        enqueue(store, leases.clone().map(job).collect());
        let jobs = leases.clone().count();
        assert_eq!(claimed(store, NOW, claim(leases, false)).len(), jobs);
    };
    run(&mut first, 1..=jobs);
    let begun = dead(&seen(&mut beats, CLAIMS));
    let (taken, next) = take_some(&mut second, begun.clone());
    assert_eq!(taken as usize, TAKEN_BACK_MAX);
    assert!(next.is_some());
    let refused = first.commit(NOW, &[claim([jobs + 1], false)]).unwrap_err();
    assert!(matches!(refused, StoreError::Fenced), "{refused}");
    let silent = seen(&mut beats, CLAIMS);
    assert_eq!(silent.life, Life::Lives, "it can be found dead again");

    // Another begins anew, and the rest of the first takeover does nothing.
    let (third, mut its_beats) = enter(&schema, NodeId(Uuid::from_u128(8)));
    let mut third = third;
    let again = dead(&seen(&mut its_beats, CLAIMS));
    assert_eq!(take(&mut third, again) as usize, TAKEN_BACK_MAX + 1);
    assert_eq!(seen(&mut beats, CLAIMS).life, Life::Taken);
    assert_eq!(take(&mut second, next.unwrap()), 0);
    assert_eq!(take(&mut second, begun), 0);

    // The node comes back in the middle of the next one.
    let (mut first, _) = enter(&schema, CLAIMS);
    let leases = 10_000..10_000 + jobs;
    assert_eq!(
        claimed(&mut first, NOW, claim(leases, false)).len() as u128,
        jobs
    );
    let (_, next) = take_some(&mut second, dead(&seen(&mut beats, CLAIMS)));
    let (mut again, _) = enter(&schema, CLAIMS);
    let claim = claim(20_000..20_010, false);
    assert_eq!(claimed(&mut again, NOW, claim).len(), 10);
    assert_eq!(take(&mut second, next.unwrap()), 0, "it lives");
    assert_eq!(seen(&mut beats, CLAIMS).life, Life::Lives);
}

#[test]
fn a_dead_node_is_fenced_and_what_it_had_is_taken_once() {
    let schema = Schema::new();
    let (mut first, mut its_beats) = enter(&schema, CLAIMS);
    let (mut second, mut beats) = enter(&schema, OTHER);
    enqueue(&mut first, vec![job(1)]);
    assert_eq!(claimed(&mut first, NOW, claim([1], false)).len(), 1);
    let before = seen(&mut beats, CLAIMS);
    assert_eq!((before.life, before.is_fresh), (Life::Lives, true));

    // It is alive after all: it has sent a heartbeat since.
    beat(&mut its_beats).unwrap();
    assert_eq!(take(&mut second, dead(&before)), 0);
    enqueue(&mut first, vec![job(2)]);

    let now = seen(&mut beats, CLAIMS);
    assert!(
        now.beat > before.beat && now.epoch == before.epoch,
        "{now:?}"
    );
    assert_eq!(take(&mut second, dead(&now)), 1);
    assert_eq!(take(&mut second, dead(&now)), 0);
    assert_eq!(seen(&mut beats, CLAIMS).life, Life::Taken);
    let reader = second.reader().unwrap();
    assert_eq!(reader.state(id(1)).unwrap(), Some(State::Available));

    let refused = first.commit(NOW, &[claim([2], false)]).unwrap_err();
    assert!(matches!(refused, StoreError::Fenced), "{refused}");
    let refused = beat(&mut its_beats).unwrap_err();
    assert!(matches!(refused, StoreError::Fenced), "{refused}");
    drop(first);

    // It comes back with its own id.
    let (mut again, mut its_beats) = enter(&schema, CLAIMS);
    beat(&mut its_beats).unwrap();
    assert_eq!(claimed(&mut again, NOW, claim([3, 4], false)).len(), 2);
    assert_eq!(take(&mut second, dead(&now)), 0);
    assert_eq!(seen(&mut beats, CLAIMS).life, Life::Lives);
}

#[test]
fn a_node_that_has_left_says_so_and_writes_no_more_once_it_is_taken() {
    let schema = Schema::new();
    let (mut first, mut its_beats) = enter(&schema, CLAIMS);
    let (mut second, mut beats) = enter(&schema, OTHER);
    enqueue(&mut first, vec![job(1)]);
    claimed(&mut first, NOW, claim([1], false));
    its_beats.leave().unwrap();
    let left = seen(&mut beats, CLAIMS);
    assert_eq!(left.life, Life::Left);
    assert_eq!(take(&mut second, dead(&left)), 1);
}

#[test]
fn of_a_node_that_was_taken_the_name_and_its_runners_are_kept() {
    let schema = Schema::new();
    let (first, mut its_beats) = enter(&schema, CLAIMS);
    let (mut second, mut beats) = enter(&schema, OTHER);
    let reader = second.reader().unwrap();
    let known = || reader.nodes().unwrap().swap_remove(0);
    let named = || NodeInfo {
        name: "one".to_owned(),
        offers: vec![Offer {
            name: "python".to_owned(),
            is_family: false,
            placed_by: Vec::new(),
            policy: Policy::default(),
            timeout_ms_max: None,
        }],
        ..NodeInfo::default()
    };
    let info = NodeInfo {
        cells: 4,
        ..named()
    };
    its_beats.beat(0, &info, &Arc::default()).unwrap();
    drop(first);
    its_beats.leave().unwrap();
    assert_eq!((known().life, known().info), (Life::Left, Some(info)));
    take(&mut second, dead(&seen(&mut beats, CLAIMS)));
    assert_eq!((known().life, known().info), (Life::Taken, Some(named())));
    // Also for one that came back and ended before its first heartbeat.
    drop(enter(&schema, CLAIMS));
    assert_eq!(known().info, None);
    take(&mut second, dead(&seen(&mut beats, CLAIMS)));
    assert_eq!((known().life, known().info), (Life::Taken, Some(named())));
}

/// Sends a heartbeat and nothing else.
fn beat(beats: &mut Beats) -> Result<ClusterView, StoreError> {
    beats.beat(0, &NodeInfo::default(), &Arc::default())
}

/// Makes all nodes but `except` look as if they had left some hours ago, unnoticed.
fn age(schema: &Schema, hours: u32, except: NodeId) {
    schema.run(&format!(
        "UPDATE host_beats SET life = 2, seen_at = now() - interval '{hours} h' \
         FROM host_nodes WHERE number = node AND id <> '{except}'"
    ));
}

#[test]
fn what_a_node_reports_is_kept_as_long_as_it_is_the_same_process() {
    let schema = Schema::new();
    let (first, mut its_beats) = enter(&schema, CLAIMS);
    let (second, mut beats) = enter(&schema, OTHER);
    let reader = second.reader().unwrap();
    let known = || reader.nodes().unwrap();
    assert!(known().iter().all(|node| node.info.is_none()));
    let mut info = NodeInfo {
        name: "one".to_owned(),
        started_at: NOW,
        ..NodeInfo::default()
    };
    let component = |name: &str, revision| {
        let flaw = (revision > 1).then(|| "too large".to_owned());
        (name.parse().unwrap(), Component { revision, flaw })
    };
    let mut components = Arc::default();
    its_beats.beat(0, &info, &components).unwrap();
    info.running.cells = 3;
    its_beats.beat(0, &info, &components).unwrap();
    components = Arc::new([component("a", 1), component("b", 2)].into());
    its_beats.beat(0, &info, &components).unwrap();
    // It reports nothing new, and nothing is forgotten.
    its_beats.beat(0, &info, &components).unwrap();
    beat(&mut beats).unwrap();
    let ids: Vec<_> = known().iter().map(|node| node.id).collect();
    assert_eq!(ids, [CLAIMS, OTHER]);
    assert_eq!(known()[0].info, Some(info));
    assert_eq!(known()[0].components, components);
    assert!(known()[1].components.is_empty());
    assert_eq!(known()[0].version, env!("CARGO_PKG_VERSION"));
    assert!(known()[0].silent_ms < 10_000);
    // A later version reports more.
    schema.run(
        r#"UPDATE host_node_info SET info = '{"name":"newer","more":[1]}' WHERE info LIKE '%one%'"#,
    );
    assert_eq!(known()[0].info.as_ref().unwrap().name, "newer");
    drop(first);
    let (_again, _its_beats) = enter(&schema, CLAIMS);
    assert_eq!(known()[0].info, None, "that was another process");
    assert!(known()[0].components.is_empty());
}

#[test]
fn a_node_learns_that_it_is_drained_even_after_a_restart() {
    let schema = Schema::new();
    let (first, mut its_beats) = enter(&schema, CLAIMS);
    let (second, mut beats) = enter(&schema, OTHER);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let (others, _) = second.others(None).unwrap();
    let drain = |drain| runtime.block_on(others.set_drain(CLAIMS, drain)).unwrap();
    let is_drained = |beats: &mut Beats| beat(beats).unwrap().drain;
    assert!(!is_drained(&mut its_beats));
    drain(true);
    assert!(is_drained(&mut its_beats));
    assert!(!is_drained(&mut beats), "another node was asked");
    drop(first);
    let (_again, mut its_beats) = enter(&schema, CLAIMS);
    assert!(is_drained(&mut its_beats));
    let known = second.reader().unwrap().nodes().unwrap();
    assert_eq!([known[0].drain, known[1].drain], [true, false]);
    drain(false);
    assert!(!is_drained(&mut its_beats));
}

#[test]
fn nodes_that_have_gone_are_forgotten_and_what_they_counted_is_not() {
    let schema = Schema::new();
    let (mut first, mut its_beats) = enter(&schema, CLAIMS);
    enqueue(&mut first, vec![job(1), job(2)]);
    beat(&mut its_beats).unwrap();
    let (mut second, mut beats) = enter(&schema, OTHER);
    enqueue(&mut second, vec![job(3)]);
    let reader = second.reader().unwrap();
    let listed = || reader.nodes().unwrap().len();
    let jobs = || reader.queues().unwrap()[0].counts[2];
    age(&schema, 23, OTHER);
    beat(&mut beats).unwrap();
    assert_eq!((listed(), jobs()), (2, 3));
    age(&schema, 25, OTHER);
    beat(&mut beats).unwrap();
    assert_eq!((listed(), jobs()), (1, 3));
    // Its old process, if it wakes up, does nothing, and a new one works as usual.
    let refused = first.commit(NOW, &[claim([1], false)]).unwrap_err();
    assert!(matches!(refused, StoreError::Fenced), "{refused}");
    let refused = beat(&mut its_beats).unwrap_err();
    assert!(matches!(refused, StoreError::Fenced), "{refused}");
    drop(first);
    let (mut again, _its_beats) = enter(&schema, CLAIMS);
    assert_eq!(claimed(&mut again, NOW, claim([1, 2, 3], false)).len(), 3);
    assert_eq!((listed(), jobs()), (2, 0));
}

#[test]
fn of_many_nodes_that_have_gone_the_last_hundred_are_kept() {
    let schema = Schema::new();
    let (second, mut beats) = enter(&schema, OTHER);
    schema.run(
        "INSERT INTO host_nodes (number, id, epoch, batch, version, seen_at) \
         SELECT 1000 + n, gen_random_uuid(), 1, 0, '1', now() FROM generate_series(1, 120) AS n",
    );
    schema.run(
        "INSERT INTO host_beats (node, epoch, beat, life, ahead, seen_at) \
         SELECT 1000 + n, 1, 1, 2, 0, now() - interval '1 s' * n FROM generate_series(1, 120) AS n",
    );
    beat(&mut beats).unwrap();
    assert_eq!(second.reader().unwrap().nodes().unwrap().len(), 101);
    beat(&mut beats).unwrap();
    assert_eq!(second.reader().unwrap().nodes().unwrap().len(), 101);
}

#[test]
fn nodes_share_the_progress_of_their_jobs() {
    let schema = Schema::new();
    let (mut first, _beats) = enter(&schema, CLAIMS);
    let (second, _its_beats) = enter(&schema, OTHER);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let (one, _) = first.others(None).unwrap();
    let (two, _) = second.others(None).unwrap();
    enqueue(&mut first, vec![job(1), job(2)]);
    claimed(&mut first, NOW, claim([1, 2], false));
    let report = |n: u128, attempt: u32, at: i64, message: &str| Reported {
        job: id(n),
        attempt,
        at: Time(at),
        progress: Progress {
            percent: Some(12.5),
            message: message.to_owned(),
        },
    };
    let publish = |by: &PostgresOthers, reported: &[Reported], over: &[u128]| {
        let over: Vec<_> = over.iter().map(|n| id(*n)).collect();
        runtime.block_on(by.report(reported, &over)).unwrap();
    };
    let new = |by: &PostgresOthers| runtime.block_on(by.reported()).unwrap();
    let reader = second.reader().unwrap();
    let all = || reader.reported(&[id(1), id(2), id(3)]).unwrap();

    let (a, b) = (report(1, 1, 5, "a\0"), report(2, 1, 5, "b"));
    // The third job does not run.
    publish(&one, &[a.clone(), b.clone(), report(3, 1, 5, "c")], &[]);
    assert_eq!(new(&two), [a.clone(), b.clone()]);
    assert_eq!((new(&two).len(), new(&one).len()), (0, 0), "each once");
    assert_eq!(all().len(), 3);
    let later = report(2, 1, 7, "later");
    publish(&one, std::slice::from_ref(&later), &[1, 3]);
    assert_eq!(new(&two), std::slice::from_ref(&later));
    assert_eq!(all(), std::slice::from_ref(&later));
    // An earlier report of the other node does not count, and it deletes nothing.
    publish(&two, &[report(2, 1, 6, "earlier")], &[2]);
    assert_eq!((new(&one), all()), (vec![], vec![later]));
    let next = report(2, 2, 6, "next");
    publish(&two, std::slice::from_ref(&next), &[]);
    assert_eq!((new(&one), all()), (vec![next.clone()], vec![next]));
    drop(second);
    let (_again, _beats) = enter(&schema, OTHER);
    assert_eq!(first.reader().unwrap().reported(&[id(2)]).unwrap(), []);
}
