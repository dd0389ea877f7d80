//! Which callbacks are due, and when.

use proptest::prelude::*;
use uuid::Uuid;

use host_core::notify::Notify;

use super::*;
use crate::webhook;

fn batch(is_open: bool) -> JobBatch {
    let notify = Notify {
        url: String::new(),
        secret: String::new(),
        events: Vec::new(),
    };
    let mut job = webhook::of_test(Time(0), JobId(Uuid::from_u128(1)), &notify);
    job.handler = "report".parse().unwrap();
    job.payload.wire = "batch".to_owned();
    let ons = [On::FirstFailure, On::Success, On::End];
    JobBatch {
        id: BatchId(Uuid::from_u128(1)),
        plan: BatchPlan {
            name: None,
            callbacks: ons.map(|on| (on, job.clone())).to_vec(),
            notify: None,
            origin: None,
            created_at: Time(0),
            kept_ms: 1_000,
        },
        progress: BatchProgress {
            is_open,
            ..BatchProgress::default()
        },
    }
}

/// Adds changes, and enqueues what is due.
fn turn(batch: &mut JobBatch, changes: &[(Option<State>, State)], now: Time) -> Vec<On> {
    let mut step = BatchStep::default();
    for (before, after) in changes {
        step.count(*before, *after);
    }
    batch.advance(step, now);
    let due = batch.due(now);
    for on in &due {
        batch.fired(*on, None, now);
    }
    due
}

const NEW: (Option<State>, State) = (None, State::Available);

fn ends(state: State) -> (Option<State>, State) {
    (Some(State::Running), state)
}

#[test]
fn an_empty_batch_that_is_closed_fires_at_once() {
    let mut it = batch(false);
    assert_eq!(turn(&mut it, &[], Time(1)), [On::Success, On::End]);
    assert_eq!(turn(&mut it, &[], Time(2)), []);
    assert_eq!(
        (it.wake_at(), it.is_over(Time(1_001))),
        (Some(Time(1_001)), true)
    );
}

#[test]
fn callbacks_follow_the_numbers() {
    let mut it = batch(true);
    assert_eq!(turn(&mut it, &[NEW, NEW, NEW], Time(1)), []);
    let two = [ends(State::Completed), ends(State::Discarded)];
    assert_eq!(turn(&mut it, &two, Time(2)), [On::FirstFailure]);
    assert_eq!(
        turn(&mut it, &[ends(State::Discarded)], Time(3)),
        [],
        "it is open"
    );
    it.progress.is_open = false;
    assert_eq!(turn(&mut it, &[], Time(4)), [On::End]);
    let again = [(Some(State::Discarded), State::Available)];
    assert_eq!(turn(&mut it, &again, Time(5)), []);
    assert_eq!(it.progress.counts.not_ended(), 1);
    assert_eq!(turn(&mut it, &[ends(State::Completed)], Time(6)), []);
    assert_eq!(it.progress.ended_at, Some(Time(4)));
}

#[test]
fn a_job_that_is_retried_before_the_end_is_waited_for() {
    let mut it = batch(false);
    turn(&mut it, &[NEW, NEW], Time(1));
    turn(&mut it, &[ends(State::Discarded)], Time(2));
    let again = [
        (Some(State::Discarded), State::Available),
        ends(State::Completed),
    ];
    assert_eq!(turn(&mut it, &again, Time(3)), []);
    assert_eq!(
        turn(&mut it, &[ends(State::Completed)], Time(4)),
        [On::Success, On::End]
    );
}

#[test]
fn a_refused_callback_is_enqueued_again() {
    let mut it = batch(false);
    it.advance(BatchStep::default(), Time(1));
    for on in it.due(Time(1)) {
        let refused = (on == On::End).then(|| "full".to_owned());
        it.fired(on, refused, Time(1));
    }
    assert_eq!(it.progress.refused.as_deref(), Some("full"));
    assert_eq!(it.due(Time(2)), []);
    let again = it.wake_at().unwrap();
    assert_eq!(turn(&mut it, &[], again), [On::End]);
    assert_eq!(it.progress.refused, None);
    assert_eq!(it.kept_until(), Some(Time(1_001)));
}

#[test]
fn a_batch_does_not_stay_open() {
    let mut it = batch(true);
    turn(&mut it, &[], Time(1));
    let closes = it.wake_at().unwrap();
    assert_eq!(turn(&mut it, &[], Time(closes.0 - 1)), []);
    assert_eq!(turn(&mut it, &[], closes), [On::Success, On::End]);
}

#[test]
fn the_node_that_is_further_with_a_cancel_counts() {
    let mut it = batch(false);
    it.progress.cancel = Some(BatchCancel {
        requested_at: Time(1),
        reason: None,
        cursor: Some(0),
    });
    let mut cancelled = |place| {
        let mut step = BatchStep::default();
        step.cancelled_up_to(place);
        it.advance(step, Time(2));
        it.progress.cancel.as_ref().unwrap().cursor
    };
    assert_eq!(cancelled(Some(7)), Some(7));
    assert_eq!(cancelled(Some(5)), Some(7));
    assert_eq!(cancelled(None), None);
    assert_eq!(cancelled(Some(9)), None);
}

proptest! {
    #[test]
    fn each_callback_is_enqueued_once(states in prop::collection::vec(0..3_usize, 0..40), cuts in prop::collection::vec(1..5_usize, 40)) {
        let mut it = batch(false);
        let new: Vec<_> = states.iter().map(|_| NEW).collect();
        let mut fired = turn(&mut it, &new, Time(1));
        let ended = [State::Completed, State::Discarded, State::Cancelled];
        let ends: Vec<_> = states.iter().map(|n| ends(ended[*n])).collect();
        let mut rest = &ends[..];
        for cut in cuts {
            let (now, later) = rest.split_at(cut.min(rest.len()));
            fired.extend(turn(&mut it, now, Time(2)));
            rest = later;
        }
        fired.extend(turn(&mut it, rest, Time(3)));
        fired.sort_unstable();
        let mut expected = Vec::new();
        expected.extend(states.contains(&1).then_some(On::FirstFailure));
        expected.extend(states.iter().all(|n| *n == 0).then_some(On::Success));
        expected.push(On::End);
        prop_assert_eq!(fired, expected);
        prop_assert_eq!(it.progress.counts.not_ended(), 0);
    }
}
