//! Jobs that were lost with others, and runners that are stuck.

use host_core::failure::FailureKind;
use host_core::outcome::Outcome;
use host_core::port::{End, Tag};
use host_core::suspicion::Suspicion;
use host_wire_kit::session::Link;
use serde_json::json;

use super::super::PoolEvent;
use super::fixture::{Bench, assignment, config, suspect};
use crate::config::{Dialect, Source};

use super::rules::failure_kind;

#[test]
fn a_hung_request_is_cancelled_then_its_runner_restarted_when_its_neighbours_are_through() {
    let mut bench = Bench::up(2, 2, Dialect::Current);
    bench.start(0, 1_000);
    bench.start(1, 60_000);
    bench.start(2, 60_000);
    let (hung, other) = (bench.links[0].1, bench.links[1].1);
    bench.pass_ms(1_000);
    let cancel = bench.last_link();
    assert_eq!(
        bench.written(cancel),
        [json!({"type": "cancel", "payload": {
            "protocol_version": "2", "job_id": "j0", "request_id": "r0", "hard_kill": false
        }})]
    );
    assert_eq!(bench.ended, []);
    bench.pass_ms(1_000);
    assert_eq!(failure_kind(&bench.ended[0].1), Some(FailureKind::TimedOut));
    assert_eq!(bench.free, 1, "the stuck runner takes nothing new");
    assert!(!bench.log.iter().any(|line| line.starts_with("kill")));
    assert_eq!(
        bench.log.last().unwrap(),
        "launch 2",
        "another takes its place"
    );
    bench.handle_event(PoolEvent::Launched { runner: 2 });
    assert_eq!(bench.free, 3);
    bench.handle_success(bench.last_link(), 9);
    bench.counted.clear();
    bench.start(4, 60_000);
    bench.handle_success(bench.last_link(), 4);
    bench.ended.pop();
    bench.start(5, 60_000);
    bench.start(3, 60_000);
    assert_eq!(bench.written(other).len(), 2);
    bench.handle_success(bench.last_link(), 5);
    bench.ended.pop();
    bench.handle_success(hung, 0);
    assert_eq!(bench.counted, ["E_OUTCOME_UNKNOWN"], "late");
    bench.handle_success(hung, 2);
    assert_eq!(bench.log.last().unwrap(), "kill 0 after 5000");
    bench.handle_success(other, 1);
    bench.handle_success(other, 3);
    let outcomes: Vec<_> = bench.ended[1..].iter().map(|(tag, _)| tag.0).collect();
    assert_eq!(outcomes, [2, 1, 3], "no neighbour was failed");
    bench.handle_event(PoolEvent::Exited { runner: 0 });
    bench.pass_ms(60_000);
    assert!(
        !bench.log.contains(&"launch 0".to_owned()),
        "it has been replaced"
    );
    assert_eq!(bench.free, 4);
    let shown: Vec<bool> = bench
        .pool
        .runners()
        .iter()
        .map(|runner| runner.is_shown)
        .collect();
    assert_eq!(shown, [false, true, true, false, false, false]);
    bench.check_quiet();
}

#[test]
fn the_jobs_of_one_lost_runner_run_again_at_once_beside_others() {
    let mut bench = Bench::up(1, 4, Dialect::Current);
    let main = bench.links[0].1;
    bench.start(0, 60_000);
    for tag in 1..=3 {
        bench.start_suspect(tag, Suspicion::NONE.after_loss(64));
    }
    assert_eq!(bench.written(main).len(), 4);
    for tag in 0..=3 {
        bench.handle_success(main, tag);
    }
    assert_eq!(bench.free, 4);
    bench.check_quiet();
}

#[test]
fn suspects_run_in_groups_beside_the_pool_as_many_as_it_has_runners() {
    for dialect in [Dialect::Current, Dialect::Documented] {
        let mut bench = Bench::up(2, 4, dialect);
        bench.start(0, 60_000);
        bench.log.clear();
        for tag in 1..=5 {
            bench.start_suspect(tag, suspect(2));
        }
        bench.pass_ms(0);
        assert_eq!(bench.log, ["launch 2", "launch 3"]);
        bench.start(6, 60_000);
        let regular =
            |bench: &Bench| bench.pool.runners[0].runs.len() + bench.pool.runners[1].runs.len();
        assert_eq!(regular(&bench), 2, "the others continue");
        for runner in [2, 3] {
            bench.handle_event(PoolEvent::Launched { runner });
        }
        let group = |bench: &Bench, runner: usize| bench.pool.in_flight(runner);
        assert_eq!(group(&bench, 2), [Tag(1), Tag(2)]);
        assert_eq!(group(&bench, 3), [Tag(3), Tag(4)]);
        bench.handle_event(PoolEvent::Exited { runner: 2 });
        let is_pair = |end: &End| matches!(end, End::LostWithOthers { jobs: 2, .. });
        assert!(bench.ended.iter().all(|(_, end)| is_pair(end)));
        assert_eq!(bench.ended.len(), 2, "no other request is harmed");
        bench.pass_ms(100);
        bench.handle_event(PoolEvent::Launched { runner: 2 });
        assert_eq!(group(&bench, 2), [Tag(5)]);
        bench.start_suspect(1, suspect(1));
        bench.handle_event(PoolEvent::Exited { runner: 3 });
        bench.pass_ms(100);
        bench.handle_event(PoolEvent::Launched { runner: 3 });
        assert_eq!(group(&bench, 3), [Tag(1)], "it does not join the other");
        bench.handle_event(PoolEvent::Exited { runner: 3 });
        assert!(matches!(bench.ended.last(), Some((Tag(1), End::Lost(_)))));
        bench.log.clear();
        bench.handle_event(PoolEvent::Exited { runner: 2 });
        bench.pass_ms(60_000);
        assert!(
            !bench.log.iter().any(|line| line.starts_with("launch")),
            "{:?}",
            bench.log
        );
        let shown = bench.pool.runners();
        assert_eq!(shown.iter().filter(|it| it.is_shown).count(), 2);
    }
}

#[test]
fn an_extra_runner_ends_when_its_group_has_ended() {
    let mut bench = Bench::up(1, 4, Dialect::Current);
    bench.start_suspect(1, suspect(1));
    bench.pass_ms(0);
    bench.handle_event(PoolEvent::Launched { runner: 1 });
    assert_eq!(bench.pool.in_flight(1), [Tag(1)]);
    bench.log.clear();
    bench.handle_success(bench.last_link(), 1);
    assert_eq!(bench.log.last().unwrap(), "kill 1 after 5000");
    bench.handle_event(PoolEvent::Exited { runner: 1 });
    bench.pass_ms(60_000);
    assert!(!bench.log.contains(&"launch 1".to_owned()));
}

#[test]
fn suspects_have_an_external_runner_for_themselves() {
    let mut external = config(1, 4, Dialect::Current);
    external.source = Source::External("127.0.0.1:9000".parse().unwrap());
    let mut bench = Bench::new(&external);
    bench.pass_ms(0);
    let main = bench.last_link();
    bench.start(0, 60_000);
    bench.start_suspect(1, suspect(1));
    assert_eq!(bench.free, 0, "it has to become idle");
    bench.start(2, 60_000);
    assert_eq!(bench.ended, [(Tag(2), End::NoRoom)]);
    bench.handle_success(main, 0);
    assert_eq!(bench.written(main).len(), 2);
    assert_eq!(bench.free, 0);
    bench.handle_success(main, 1);
    assert_eq!(bench.free, 4);
    assert_eq!(bench.links.len(), 1);
}

#[test]
fn suspects_that_wait_can_be_cancelled_and_end_at_their_deadlines() {
    let mut bench = Bench::up(1, 8, Dialect::Current);
    for tag in 1..=4 {
        bench.start_suspect(tag, suspect(2));
    }
    let mut late = assignment(5, 60_000);
    (late.suspicion, late.deadline) = (suspect(1), Some(bench.now.plus_ms(500)));
    bench.handle_event(PoolEvent::Start(Tag(5), Box::new(late)));
    bench.cancel(2, 500);
    let cancelled = End::Outcome(Outcome::Cancelled { partial: None });
    assert_eq!(bench.ended, [(Tag(2), cancelled)]);
    bench.pass_ms(500);
    assert_eq!(bench.ended[1].0, Tag(5));
    assert_eq!(failure_kind(&bench.ended[1].1), Some(FailureKind::TimedOut));
    bench.handle_event(PoolEvent::Drain);
    let given_back: Vec<_> = bench.ended[2..].to_vec();
    assert_eq!(given_back, [1, 3, 4].map(|tag| (Tag(tag), End::NoRoom)));
}

#[test]
fn a_pool_of_one_with_a_stuck_runner_goes_on_at_once() {
    for dialect in [Dialect::Current, Dialect::Documented] {
        let mut bench = Bench::up(1, 2, dialect);
        bench.start(0, 1_000);
        bench.start(1, 3_600_000);
        bench.pass_ms(2_000);
        assert_eq!(bench.log.last().unwrap(), "launch 1");
        bench.handle_event(PoolEvent::Launched { runner: 1 });
        assert_eq!(bench.free, 2);
        assert_eq!(bench.ended.len(), 1, "the neighbour continues");
        // The second is stuck as well; then the third; then the first is ended.
        for runner in 1..=2 {
            bench.start(2 * u64::try_from(runner).unwrap(), 1_000);
            bench.start(2 * u64::try_from(runner).unwrap() + 1, 3_600_000);
            bench.ended.clear();
            bench.pass_ms(2_000);
            assert_eq!(bench.ended.len(), 1);
            if runner < 2 {
                bench.handle_event(PoolEvent::Launched { runner: runner + 1 });
                assert_eq!(bench.free, 2);
            }
        }
        assert_eq!(bench.log.last().unwrap(), "kill 0 after 5000");
        bench.handle_event(PoolEvent::Exited { runner: 0 });
        bench.pass_ms(100);
        assert_eq!(bench.log.last().unwrap(), "launch 0");
        bench.handle_event(PoolEvent::Launched { runner: 0 });
        assert_eq!(bench.free, 2);
    }
}

#[test]
fn a_runner_that_is_stuck_while_it_is_connected_to_again_is_still_restarted() {
    let mut bench = Bench::up(1, 2, Dialect::Documented);
    bench.start(0, 1_000);
    bench.listening = false;
    bench.start(1, 1_000);
    assert_eq!(bench.ended, [(Tag(1), End::NoRoom)]);
    assert_eq!(bench.free, 0, "it is reconnected");
    bench.pass_ms(2_000);
    assert_eq!(failure_kind(&bench.ended[1].1), Some(FailureKind::TimedOut));
    bench.listening = true;
    bench.pass_ms(500);
    assert_eq!(bench.log.last().unwrap(), "kill 0 after 5000");
}

#[test]
fn connections_that_end_one_after_the_other_are_lost_together() {
    let mut bench = Bench::up(1, 4, Dialect::Documented);
    let before = bench.links.len();
    for tag in 0..3 {
        bench.start(tag, 60_000);
    }
    let links: Vec<Link> = bench.links[before..]
        .iter()
        .map(|(_, link)| *link)
        .collect();
    bench.close(links[0]);
    assert_eq!(bench.free, 0, "it may be ending");
    bench.close(links[2]);
    bench.pass_ms(5);
    bench.handle_event(PoolEvent::Exited { runner: 0 });
    assert_eq!(bench.ended.len(), 3);
    for (_, end) in &bench.ended {
        assert!(
            matches!(end, End::LostWithOthers { jobs: 3, .. }),
            "{end:?}"
        );
    }
    // Much later, one that is alone is.
    bench.pass_ms(100);
    bench.handle_event(PoolEvent::Launched { runner: 0 });
    bench.pass_ms(2_000);
    bench.start(3, 60_000);
    bench.close(bench.last_link());
    assert!(matches!(&bench.ended[3], (Tag(3), End::Lost(_))));
}
