//! Hosts that share a database: how they see each other, and how one takes the place of a dead one.

use host_core::command::{Command, Reply};
use host_core::id::NodeId;
use host_core::job::State;
use host_core::node::{Dead, Life, Seen};
use host_store::postgres::PostgresStore;
use host_store::postgres::nodes::Beats;
use host_store::store::Store as _;
use host_store::{Heartbeat as _, StoreError};
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

/// Returns how `node` looks to another.
fn seen(by: &mut Beats, node: NodeId) -> Seen {
    let roll = by.beat(0).unwrap();
    roll.nodes.into_iter().find(|seen| seen.id == node).unwrap()
}

fn dead(seen: &Seen) -> Command {
    Command::TakeOver(Dead {
        node: seen.id,
        epoch: seen.epoch,
        beat: seen.beat,
    })
}

/// Lets a node take over. Returns how many jobs it took back.
fn take(store: &mut PostgresStore, dead: Command) -> u32 {
    match ask(store, NOW, dead).unwrap() {
        Reply::Ticked { jobs, .. } => jobs,
        other => panic!("{other:?}"),
    }
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

    // It lives after all: it has said so since.
    its_beats.beat(0).unwrap();
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

    let refused = first.commit(NOW, vec![claim([2], false)]).unwrap_err();
    assert!(matches!(refused, StoreError::Fenced), "{refused}");
    let refused = its_beats.beat(0).unwrap_err();
    assert!(matches!(refused, StoreError::Fenced), "{refused}");
    drop(first);

    // It comes back as itself.
    let (mut again, mut its_beats) = enter(&schema, CLAIMS);
    its_beats.beat(0).unwrap();
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
