//! Revisions of components: their owners, how many are kept, and what a deploy reports about removed handlers.

use std::sync::atomic::{AtomicBool, Ordering};

use host_core::id::NodeId;
use host_core::job::{NewJob, State};
use host_core::query::JobFilter;
use host_engine::component::tables::{Blob, read_deployed, read_revisions};
use host_engine::component::{
    ComponentRefusal, Deployed, Digest, RemoveComponent, RemovedHandler, Rollback,
};
use host_engine::job::{Cancel, Enqueue};
use host_engine::{Command, Rejection, Reply, Store as _};
use host_store::postgres::PostgresStore;
use uuid::Uuid;

use crate::cases::check;
use crate::jobs::{NOW, ask, claim, claimed, complete, enqueue, job, returned, revision};
use crate::postgres::{TESTED, target};
use crate::server::Schema;

/// As documented.
const KEPT: u32 = 20;

/// How often a component is removed beside enqueues.
const REMOVALS: u32 = 20;

#[test]
fn the_latest_revisions_are_kept_with_their_bytes() {
    check(|store| {
        for digest in 1..=u8::try_from(KEPT).unwrap() + 5 {
            let deployed = ask(store, NOW, revision("a", &["noop"], digest));
            assert!(matches!(deployed, Ok(Reply::Deployed(_))), "{deployed:?}");
        }
        ask(store, NOW, revision("b", &["other"], 1)).unwrap();
        let reader = store.reader().unwrap();
        let (revisions, current) = read_revisions(&*reader, &"a".parse().unwrap()).unwrap();
        let numbers: Vec<u32> = revisions.iter().map(|revision| revision.revision).collect();
        assert_eq!(numbers, (6..=KEPT + 5).rev().collect::<Vec<u32>>());
        assert_eq!(current, KEPT + 5);
        let has = |digest| reader.get::<Blob>(Digest([digest; 32])).unwrap().is_some();
        assert!(has(1), "another component has these");
        assert!(!has(2) && !has(5) && has(6));
        let back = |revision| {
            Command::from(Rollback {
                component: "a".parse().unwrap(),
                revision,
                wall: NOW,
            })
        };
        let gone = ask(store, NOW, back(5));
        assert!(
            matches!(
                gone,
                Err(Rejection::Component(
                    ComponentRefusal::UnknownRevision { .. }
                ))
            ),
            "{gone:?}"
        );
        ask(store, NOW, back(6)).unwrap();
    });
}

#[test]
fn a_deploy_lists_which_handlers_are_gone_and_whose_jobs_wait() {
    check(|store| {
        let removed = |reply| match reply {
            Ok(Reply::Deployed(Deployed { removed, .. })) => removed,
            other => panic!("{other:?}"),
        };
        let gone = |handler: &str, jobs| RemovedHandler {
            handler: handler.parse().unwrap(),
            jobs,
        };
        let first = revision("a", &["noop", "x"], 1);
        assert_eq!(removed(ask(store, NOW, first)), []);
        enqueue(store, vec![job(1), job(2)]);
        let second = ask(store, NOW, revision("a", &["y"], 2));
        assert_eq!(removed(second), [gone("noop", 2), gone("x", 0)]);
        let back = Command::from(Rollback {
            component: "a".parse().unwrap(),
            revision: 1,
            wall: NOW,
        });
        assert_eq!(removed(ask(store, NOW, back)), [gone("y", 0)]);
    });
}

#[test]
fn components_have_revisions_and_owners() {
    check(|store| {
        let deployed = |reply| match reply {
            Ok(Reply::Deployed(Deployed {
                revision,
                unchanged,
                ..
            })) => (revision.revision, unchanged),
            other => panic!("{other:?}"),
        };
        assert_eq!(
            deployed(ask(store, NOW, revision("a", &["noop"], 1))),
            (1, false)
        );
        assert_eq!(
            deployed(ask(store, NOW, revision("a", &["noop"], 1))),
            (1, true)
        );
        assert_eq!(
            deployed(ask(store, NOW, revision("a", &["noop", "x"], 2))),
            (2, false)
        );
        let owned = ask(store, NOW, revision("b", &["x"], 3));
        assert!(
            matches!(
                owned,
                Err(Rejection::Component(ComponentRefusal::HandlerOwned { .. }))
            ),
            "{owned:?}"
        );
        let back = Command::from(Rollback {
            component: "a".parse().unwrap(),
            revision: 1,
            wall: NOW,
        });
        assert_eq!(deployed(ask(store, NOW, back)), (1, false));
        assert_eq!(
            deployed(ask(store, NOW, revision("b", &["x"], 3))),
            (1, false)
        );
        enqueue(store, vec![job(1)]);
        let remove = || {
            Command::from(RemoveComponent {
                component: "a".parse().unwrap(),
            })
        };
        let in_use = ask(store, NOW, remove());
        assert!(
            matches!(
                in_use,
                Err(Rejection::Component(ComponentRefusal::InUse {
                    jobs: 1,
                    ..
                }))
            ),
            "{in_use:?}"
        );
        claimed(store, NOW, claim([1], false));
        ask(store, NOW, complete(1, 1, returned())).unwrap();
        ask(store, NOW, remove()).unwrap();
        let reader = store.reader().unwrap();
        assert_eq!(read_deployed(&*reader).unwrap().len(), 1);
        let bytes = |digest| reader.get::<Blob>(Digest([digest; 32])).unwrap();
        assert_eq!(bytes(1), None);
        assert_eq!(bytes(3).map(|it| it.bytes), Some(vec![3; 10]));
        let again = deployed(ask(store, NOW, revision("a", &["noop"], 1)));
        assert_eq!(again, (3, false), "its numbers continue");
        ask(store, NOW, remove()).unwrap();
        let again = deployed(ask(store, NOW, revision("a", &["noop"], 1)));
        assert_eq!(again, (4, false));
    });
}

#[test]
fn a_job_beside_a_removal_is_refused_or_keeps_the_component() {
    check(|store| {
        let of_a = |n| {
            let new = NewJob {
                component: Some("a".parse().unwrap()),
                ..job(n)
            };
            Command::from(Enqueue(vec![new]))
        };
        let remove = || {
            Command::from(RemoveComponent {
                component: "a".parse().unwrap(),
            })
        };
        ask(store, NOW, revision("a", &["noop"], 1)).unwrap();
        // In one batch, in either order, and in later ones.
        let committed = store.commit(NOW, &[of_a(1), remove(), of_a(2)]).unwrap();
        let [first, in_use, second] = &committed.replies[..] else {
            panic!("{committed:?}")
        };
        assert!(first.is_ok() && second.is_ok(), "{committed:?}");
        assert!(
            matches!(
                in_use,
                Err(Rejection::Component(ComponentRefusal::InUse {
                    jobs: 1,
                    ..
                }))
            ),
            "{in_use:?}"
        );
        claimed(store, NOW, claim([1, 2], false));
        for n in [1, 2] {
            ask(store, NOW, complete(n, n, returned())).unwrap();
        }
        let committed = store.commit(NOW, &[remove(), of_a(3)]).unwrap();
        let removed = || {
            Err(Rejection::Component(ComponentRefusal::HandlerRemoved(
                "noop".parse().unwrap(),
            )))
        };
        assert_eq!(committed.replies, [Ok(Reply::Done), removed()]);
        assert_eq!(ask(store, NOW, of_a(4)), removed());
    });
}

/// One node enqueues while another removes and deploys: while the component is gone, no job waits for it.
#[test]
fn no_node_accepts_a_job_while_another_removes_its_component() {
    let schema = Schema::new();
    let open = |node: u128| {
        let node = NodeId(Uuid::from_u128(node));
        PostgresStore::open(&target(&schema), node, TESTED).unwrap()
    };
    let deploy = || revision("a", &["noop"], 1);
    let mut first = open(1);
    ask(&mut first, NOW, deploy()).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut store = open(2);
            let mut n = 0;
            while !is_over.load(Ordering::Relaxed) && n < 100_000 {
                n += 1;
                let new = NewJob {
                    component: Some("a".parse().unwrap()),
                    ..job(n)
                };
                let accepted = ask(&mut store, NOW, Command::from(Enqueue(vec![new])));
                let is_refused = matches!(
                    accepted,
                    Err(Rejection::Component(ComponentRefusal::HandlerRemoved(_)))
                );
                assert!(accepted.is_ok() || is_refused, "{accepted:?}");
            }
        });
        let mut removed = 0;
        while removed < REMOVALS {
            let remove = Command::from(RemoveComponent {
                component: "a".parse().unwrap(),
            });
            let live = JobFilter {
                state: Some(State::Available),
                ..JobFilter::default()
            };
            let reader = first.reader().unwrap();
            if ask(&mut first, NOW, remove).is_ok() {
                let waiting = reader.matching(&live, None, 10).unwrap().items;
                assert_eq!(waiting, [], "jobs without their component");
                ask(&mut first, NOW, deploy()).unwrap();
                removed += 1;
            } else {
                let waiting = reader.matching(&live, None, 1_000).unwrap().items;
                let cancel = |job| {
                    Command::from(Cancel {
                        job,
                        reason: None,
                        grace_ms: None,
                    })
                };
                first
                    .commit(NOW, &waiting.into_iter().map(cancel).collect::<Vec<_>>())
                    .unwrap();
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
}
