//! Leases by TTL on every engine: which messages of a remote worker are accepted when, and what expires.

mod remote;
mod renewals;

use host_core::failure::FailureKind;
use host_core::id::NodeId;
use host_core::job::{Lane, Lifecycle, State};
use host_core::json::JsonText;
use host_core::lease::{Fence, Hold, Revocation};
use host_core::outcome::Outcome;
use host_core::policy::{OnGraceExpired, Policy};
use host_core::query::RemoteLease;
use host_core::time::Time;
use host_core::transition::{Effect, Loss};
use host_engine::job::{Cancel, Tick};
use host_engine::lease::{Ack, CancelAck, Claim, Complete, Heartbeat, LeaseRefusal, Lose};
use host_engine::node::{Recover, TakenBack};
use host_engine::{Command, Rejection, Reply, Store, lease};
use uuid::Uuid;

use crate::cases::check;
use crate::jobs::{
    NODE, NOW, ask, claim, claim_in, claimed, commit, complete, enqueue, failed, id, job, lease,
    read, recover, returned,
};

const TTL_MS: u64 = 30_000;
const WINDOW_MS: u64 = 5_000;
const OTHER_NODE: NodeId = NodeId(Uuid::from_u128(2));

/// The instant `ms` after the claim.
fn at(ms: u64) -> Time {
    NOW.plus_ms(ms)
}

fn ack_window() -> Policy {
    Policy {
        ack_window_ms: Some(WINDOW_MS),
        ..Policy::default()
    }
}

/// A claim of `node` for a remote worker, with lease `n` for the first job.
fn claim_by_ttl(node: NodeId, leases: impl IntoIterator<Item = u128>) -> Command {
    let mut command = claim_in(&Lane::Shared, leases);
    let Command::Lease(lease::Command::Claim(Claim {
        node: by, slots, ..
    })) = &mut command
    else {
        panic!("a claim");
    };
    *by = node;
    for slot in slots {
        slot.hold = Hold::Ttl { ttl_ms: TTL_MS };
        "worker-1".clone_into(&mut slot.worker);
    }
    command
}

/// Enqueues job 1 with this policy and claims it with lease 1.
fn start(store: &mut dyn Store, policy: Policy) -> Lifecycle {
    let mut new = job(1);
    new.policy = policy;
    enqueue(store, vec![new]);
    let mut claimed = claimed(store, NOW, claim_by_ttl(NODE, [1]));
    claimed.remove(0).lifecycle
}

fn current() -> Fence {
    Fence::Lease(lease(1))
}

fn ack(fence: Fence) -> Command {
    Command::from(Ack { job: id(1), fence })
}

fn heartbeat(fence: Fence) -> Command {
    Command::from(Heartbeat { job: id(1), fence })
}

fn complete_as(fence: Fence) -> Command {
    let mut command = complete(1, 1, returned());
    if let Command::Lease(lease::Command::Complete(Complete { fence: named, .. })) = &mut command {
        *named = fence;
    }
    command
}

fn give_back(fence: Fence) -> Command {
    Command::from(Lose {
        job: id(1),
        fence,
        loss: Loss::NotBegun,
        executor: "worker-1".to_owned(),
        requests: None,
    })
}

fn cancel(grace_ms: u64) -> Command {
    Command::from(Cancel {
        job: id(1),
        reason: Some("enough".to_owned()),
        grace_ms: Some(grace_ms),
    })
}

fn cancel_ack(fence: Fence) -> Command {
    Command::from(CancelAck {
        job: id(1),
        fence,
        partial: Some(JsonText("{\"done\":3}".to_owned())),
        message: Some("stopped in time".to_owned()),
    })
}

/// Commits a command that must succeed and returns the job that its answer shows.
fn moved(store: &mut dyn Store, now: Time, command: Command) -> Lifecycle {
    match ask(store, now, command) {
        Ok(Reply::Moved(job)) => *job,
        other => panic!("{other:?}"),
    }
}

/// Commits a command that must be refused and change nothing.
fn refused(store: &mut dyn Store, now: Time, command: Command) -> Rejection {
    let before = read(&*store.reader().unwrap());
    let rejection = ask(store, now, command).unwrap_err();
    assert_eq!(read(&*store.reader().unwrap()), before, "{rejection}");
    rejection
}

/// Lets time pass; returns the effects and the next wakeup.
fn tick(store: &mut dyn Store, now: Time) -> (Vec<Effect>, Option<Time>) {
    let committed = commit(store, now, vec![Command::from(Tick { limit: 10 })]);
    let effects = committed.effects.into_iter().map(|(_, effect)| effect);
    (effects.collect(), committed.next_wakeup)
}

fn stored(store: &dyn Store) -> Lifecycle {
    let detail = store.reader().unwrap().job(id(1)).unwrap();
    detail.unwrap().lifecycle
}

/// Returns the number, executor and outcome of each recorded attempt of job 1.
fn attempts(store: &dyn Store) -> Vec<(u32, String, String)> {
    let attempts = store
        .reader()
        .unwrap()
        .attempts(id(1), 0, u32::MAX)
        .unwrap();
    attempts
        .into_iter()
        .map(|attempt| (attempt.number, attempt.executor, attempt.outcome))
        .collect()
}

fn one_attempt(outcome: &str) -> Vec<(u32, String, String)> {
    vec![(1, "worker-1".to_owned(), outcome.to_owned())]
}

const fn revoke(why: Revocation) -> Effect {
    let lease = host_core::id::LeaseId(Uuid::from_u128(1));
    Effect::Revoke { lease, why }
}

#[test]
fn a_claim_without_an_ack_window_lasts_for_its_ttl() {
    check(|store| {
        let job = start(store, Policy::default());
        let granted = job.lease.as_ref().unwrap();
        assert_eq!((granted.node, granted.worker.as_str()), (NODE, "worker-1"));
        assert_eq!(granted.expires_at, Some(at(TTL_MS)));
        assert_eq!(granted.ack_by, None);
        assert_eq!(tick(store, NOW), (vec![], Some(at(TTL_MS))));
        let beaten = moved(store, at(10), heartbeat(current()));
        assert_eq!(beaten.lease.unwrap().expires_at, Some(at(TTL_MS + 10)));
    });
}

#[test]
fn a_claim_with_an_ack_window_ends_if_no_ack_comes() {
    check(|store| {
        let job = start(store, ack_window());
        assert_eq!(job.lease.unwrap().ack_by, Some(at(WINDOW_MS)));
        assert_eq!(tick(store, NOW), (vec![], Some(at(WINDOW_MS))));
        let (effects, _) = tick(store, at(WINDOW_MS));
        assert_eq!(effects, [revoke(Revocation::NotAcknowledged)]);
        assert_eq!(stored(store).state, State::Available);
        assert_eq!(attempts(store), one_attempt("lost"));
        let late = refused(store, at(WINDOW_MS), ack(current()));
        assert_eq!(late, Rejection::Lease(LeaseRefusal::Stale));
    });
}

#[test]
fn one_claim_serves_cells_and_remote_workers() {
    check(|store| {
        enqueue(store, vec![job(1), job(2)]);
        let mut both = claim([1], false);
        let (
            Command::Lease(lease::Command::Claim(Claim { slots, .. })),
            Command::Lease(lease::Command::Claim(Claim { slots: more, .. })),
        ) = (&mut both, claim_by_ttl(NODE, [2]))
        else {
            panic!("two claims");
        };
        slots.extend(more);
        let claimed = claimed(store, NOW, both);
        let ends = claimed
            .iter()
            .map(|claimed| claimed.lifecycle.lease.as_ref().unwrap().expires_at);
        assert_eq!(ends.collect::<Vec<_>>(), [None, Some(at(TTL_MS))]);
    });
}

#[test]
fn an_ack_is_taken_in_its_window_and_may_be_repeated() {
    check(|store| {
        start(store, ack_window());
        let acked = moved(store, at(WINDOW_MS - 1), ack(current()));
        let held = acked.lease.clone().unwrap();
        let extended = at(WINDOW_MS - 1 + TTL_MS);
        assert_eq!((held.ack_by, held.expires_at), (None, Some(extended)));
        let again = moved(store, at(WINDOW_MS + 1), ack(current()));
        assert_eq!(again, acked, "a repeated ack changes nothing");
    });
}

#[test]
fn an_ack_after_its_window_is_refused_even_before_the_tick() {
    check(|store| {
        start(store, ack_window());
        let late = refused(store, at(WINDOW_MS), ack(current()));
        assert_eq!(late, Rejection::Lease(LeaseRefusal::Expired));
    });
}

#[test]
fn nothing_but_an_ack_or_a_give_back_comes_first() {
    check(|store| {
        start(store, ack_window());
        for early in [heartbeat(current()), complete_as(current())] {
            assert_eq!(
                refused(store, at(1), early),
                Rejection::Lease(LeaseRefusal::NotAcknowledged)
            );
        }
        moved(store, at(1), ack(current()));
        moved(store, at(2), heartbeat(current()));
        let ended = moved(store, at(3), complete_as(current()));
        assert_eq!(ended.state, State::Completed);
    });
}

#[test]
fn heartbeats_extend_the_lease_from_their_receipt() {
    check(|store| {
        start(store, Policy::default());
        for sent in [20_000, 40_000, 60_000] {
            let beaten = moved(store, at(sent), heartbeat(current()));
            assert_eq!(beaten.lease.unwrap().expires_at, Some(at(sent + TTL_MS)));
            assert_eq!(tick(store, at(sent)), (vec![], Some(at(sent + TTL_MS))));
        }
    });
}

#[test]
fn nothing_is_taken_after_the_lease() {
    let late: [fn(Fence) -> Command; 5] = [ack, heartbeat, complete_as, give_back, cancel_ack];
    for late in late {
        check(|store| {
            start(store, Policy::default());
            let before_tick = refused(store, at(TTL_MS), late(current()));
            assert_eq!(before_tick, Rejection::Lease(LeaseRefusal::Expired));
            tick(store, at(TTL_MS));
            let after_tick = refused(store, at(TTL_MS), late(current()));
            assert_eq!(after_tick, Rejection::Lease(LeaseRefusal::Stale));
            claimed(store, at(TTL_MS), claim_by_ttl(NODE, [2]));
            let after_claim = refused(store, at(TTL_MS), late(current()));
            assert_eq!(after_claim, Rejection::Lease(LeaseRefusal::Stale));
        });
    }
}

#[test]
fn an_expired_lease_is_charged_as_the_policy_says() {
    for (lost_lease_costs_attempt, charged, state) in
        [(false, 0, State::Available), (true, 1, State::Discarded)]
    {
        check(|store| {
            let policy = Policy {
                max_attempts: 1,
                lost_lease_costs_attempt,
                ..Policy::default()
            };
            start(store, policy);
            assert_eq!(tick(store, at(TTL_MS - 1)), (vec![], Some(at(TTL_MS))));
            let (effects, _) = tick(store, at(TTL_MS));
            assert_eq!(effects, [revoke(Revocation::Expired)]);
            let job = stored(store);
            assert_eq!((job.state, job.attempts_charged()), (state, charged));
            assert_eq!(job.failure, Some(FailureKind::LeaseLost));
            assert_eq!(attempts(store), one_attempt("lost"));
        });
    }
}

#[test]
fn each_fence_names_the_holder_of_the_current_attempt_only() {
    let foreign = [
        Fence::Lease(lease(9)),
        Fence::Attempt(0),
        Fence::Attempt(2),
        Fence::Worker("worker-2".to_owned()),
    ];
    let own = [
        current(),
        Fence::Attempt(1),
        Fence::Worker("worker-1".to_owned()),
    ];
    let messages: [fn(Fence) -> Command; 5] = [ack, heartbeat, complete_as, give_back, cancel_ack];
    check(|store| {
        start(store, Policy::default());
        moved(store, NOW, cancel(5_000));
        for message in messages {
            for fence in &foreign {
                let stale = refused(store, at(1), message(fence.clone()));
                assert_eq!(stale, Rejection::Lease(LeaseRefusal::Stale), "{fence:?}");
            }
        }
    });
    for fence in own {
        for message in messages {
            check(|store| {
                start(store, Policy::default());
                moved(store, NOW, cancel(5_000));
                moved(store, at(1), message(fence.clone()));
            });
        }
    }
}

#[test]
fn a_lease_and_an_attempt_of_the_past_end_nothing_but_the_same_worker_may() {
    check(|store| {
        start(store, Policy::default());
        tick(store, at(TTL_MS));
        claimed(store, at(TTL_MS), claim_by_ttl(NODE, [2]));
        for past in [current(), Fence::Attempt(1)] {
            let stale = refused(store, at(TTL_MS), complete_as(past));
            assert_eq!(stale, Rejection::Lease(LeaseRefusal::Stale));
        }
        let worker = Fence::Worker("worker-1".to_owned());
        let ended = moved(store, at(TTL_MS), complete_as(worker));
        assert_eq!((ended.state, ended.attempt), (State::Completed, 2));
    });
}

#[test]
fn a_worker_gets_a_cancel_with_its_heartbeat_and_acknowledges_it() {
    check(|store| {
        start(store, Policy::default());
        let unasked = refused(store, at(1), cancel_ack(current()));
        assert_eq!(unasked, Rejection::Lease(LeaseRefusal::CancelNotRequested));
        let committed = commit(store, at(1_000), vec![cancel(5_000)]);
        assert!(
            matches!(committed.effects[..], [(_, Effect::Stop { .. })]),
            "{committed:?}"
        );
        assert_eq!(committed.next_wakeup, Some(at(6_000)));
        let beaten = moved(store, at(2_000), heartbeat(current()));
        assert_eq!(beaten.state, State::Running);
        assert_eq!(beaten.lease.unwrap().expires_at, Some(at(2_000 + TTL_MS)));
        let asked = beaten.cancel.unwrap();
        assert_eq!(asked.requested_at, at(1_000));
        assert_eq!(asked.reason.as_deref(), Some("enough"));
        assert_eq!(asked.grace_ends_at, Some(at(6_000)));
        let ended = moved(store, at(3_000), cancel_ack(current()));
        assert_eq!(ended.state, State::Cancelled);
        assert_eq!(ended.finished_at, Some(at(3_000)));
        assert_eq!(attempts(store), one_attempt("cancelled"));
        let detail = store.reader().unwrap().job(id(1)).unwrap().unwrap();
        assert_eq!(detail.result.unwrap().as_str(), "{\"done\":3}");
        let failure = detail.failure.unwrap();
        assert_eq!(failure.kind, FailureKind::Cancelled);
        assert_eq!(failure.message, "stopped in time");
        let again = refused(store, at(3_001), cancel_ack(current()));
        assert_eq!(again, Rejection::Lease(LeaseRefusal::Stale));
    });
}

#[test]
fn a_result_wins_over_a_cancel_and_a_failure_does_not() {
    let outcomes = [
        (returned(), State::Completed),
        (failed(true), State::Cancelled),
        (Outcome::Cancelled { partial: None }, State::Cancelled),
    ];
    for (outcome, state) in outcomes {
        check(|store| {
            start(store, Policy::default());
            moved(store, NOW, cancel(5_000));
            let ended = moved(store, at(1), complete(1, 1, outcome.clone()));
            assert_eq!(ended.state, state);
        });
    }
}

#[test]
fn a_cancel_without_an_answer_ends_with_its_grace() {
    for (on_grace_expired, state, kind) in [
        (
            OnGraceExpired::Cancelled,
            State::Cancelled,
            FailureKind::Cancelled,
        ),
        (
            OnGraceExpired::Discarded,
            State::Discarded,
            FailureKind::CancelTimeout,
        ),
    ] {
        check(|store| {
            let policy = Policy {
                on_grace_expired,
                ..Policy::default()
            };
            start(store, policy);
            moved(store, NOW, cancel(5_000));
            moved(store, at(4_000), heartbeat(current()));
            assert_eq!(tick(store, at(4_999)), (vec![], Some(at(5_000))));
            let (effects, _) = tick(store, at(5_000));
            assert_eq!(effects, [revoke(Revocation::Cancelled)]);
            let job = stored(store);
            assert_eq!((job.state, job.failure), (state, Some(kind)));
            assert_eq!(attempts(store), one_attempt("lost"));
            let late = refused(store, at(5_000), cancel_ack(current()));
            assert_eq!(late, Rejection::Lease(LeaseRefusal::Stale));
        });
    }
}

#[test]
fn a_cancel_outlives_a_lease_that_ends_before_its_grace() {
    check(|store| {
        start(store, Policy::default());
        moved(store, at(TTL_MS - 1), cancel(5_000));
        tick(store, at(TTL_MS));
        assert_eq!(stored(store).state, State::Cancelled);
    });
}

#[test]
fn a_job_that_is_given_back_is_available_and_no_attempt_is_charged() {
    for policy in [Policy::default(), ack_window()] {
        check(|store| {
            let policy = Policy {
                max_attempts: 1,
                lost_lease_costs_attempt: true,
                ..policy.clone()
            };
            start(store, policy);
            let back = moved(store, at(1), give_back(current()));
            assert_eq!((back.state, back.attempts_charged()), (State::Available, 0));
            assert_eq!((back.lease, back.failure), (None, None));
            assert_eq!(attempts(store), []);
            let again = refused(store, at(1), give_back(current()));
            assert_eq!(again, Rejection::Lease(LeaseRefusal::Stale));
            let taken = claimed(store, at(2), claim_by_ttl(OTHER_NODE, [2]));
            assert_eq!(taken[0].lifecycle.attempt, 2);
        });
    }
}

#[test]
fn a_job_that_is_given_back_after_a_cancel_is_cancelled() {
    check(|store| {
        start(store, ack_window());
        moved(store, at(1), cancel(5_000));
        let back = moved(store, at(2), give_back(current()));
        assert_eq!(back.state, State::Cancelled);
        assert_eq!(attempts(store), []);
    });
}

#[test]
fn a_node_that_restarts_takes_back_the_leases_of_its_own_connections_only() {
    check(|store| {
        enqueue(store, (1..=5).map(job).collect());
        let by_connection = |node, n| {
            let mut claim = claim([n], false);
            if let Command::Lease(lease::Command::Claim(Claim { node: by, .. })) = &mut claim {
                *by = node;
            }
            claim
        };
        claimed(store, NOW, by_connection(NODE, 1));
        claimed(store, NOW, by_connection(OTHER_NODE, 2));
        claimed(store, NOW, claim_by_ttl(NODE, [3]));
        claimed(store, NOW, claim_by_ttl(OTHER_NODE, [4]));
        claimed(store, NOW, by_connection(NodeId::NIL, 5));
        let running = |store: &dyn Store| {
            let reader = store.reader().unwrap();
            let runs = |n: &u128| reader.state(id(*n)).unwrap() == Some(State::Running);
            (1..=5).filter(runs).collect::<Vec<u128>>()
        };
        let recover = Command::from(Recover {
            after: 0,
            node: NODE,
            living: vec![OTHER_NODE],
        });
        let restarted = ask(store, at(1), recover);
        assert!(
            matches!(
                restarted,
                Ok(Reply::TakenBack(TakenBack {
                    jobs: 2,
                    next: None
                }))
            ),
            "{restarted:?}"
        );
        assert_eq!(running(store), [2, 3, 4]);
        let nodes = |store: &dyn Store| {
            let remote = store.reader().unwrap().remote_leases().unwrap();
            let nodes = remote.iter().map(|held| (held.job, held.lease.node));
            nodes.collect::<Vec<_>>()
        };
        assert_eq!(nodes(store), [(id(3), NODE), (id(4), OTHER_NODE)]);
        // It takes leases by TTL from nodes that do not live.
        for (living, by) in [(vec![NODE], NODE), (vec![], OTHER_NODE)] {
            let node = OTHER_NODE;
            ask(
                store,
                at(2),
                Command::from(Recover {
                    after: 0,
                    node,
                    living,
                }),
            )
            .unwrap();
            assert_eq!(running(store), [3, 4]);
            assert_eq!(nodes(store), [(id(3), by), (id(4), OTHER_NODE)]);
        }
    });
}

#[test]
fn remote_leases_show_what_a_restarted_host_needs() {
    check(|store| {
        let mut new = job(1);
        new.policy = ack_window();
        new.deadline = Some(at(90_000));
        enqueue(store, vec![new, job(2), job(3)]);
        let running = claimed(store, NOW, claim_by_ttl(NODE, [1]));
        claimed(store, NOW, claim([2], false));
        moved(store, at(1), cancel(5_000));
        let remote = store.reader().unwrap().remote_leases().unwrap();
        let expected = RemoteLease {
            job: id(1),
            executor: None,
            handler: job(1).handler,
            queue: job(1).queue,
            attempt: 1,
            lease: running[0].lifecycle.lease.clone().unwrap(),
            cancel: stored(store).cancel,
            deadline: Some(at(90_000)),
        };
        assert_eq!(remote, [expected]);
        moved(store, at(2), cancel_ack(current()));
        assert_eq!(store.reader().unwrap().remote_leases().unwrap(), []);
    });
}
