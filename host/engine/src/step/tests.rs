//! Which step may follow which, as a table.

use host_core::id::{JobId, LeaseId};
use host_core::json::JsonText;
use host_core::step::{JOURNAL_BYTES_MAX, STEP_BYTES_MAX, STEPS_MAX, StepState};
use host_core::time::Time;
use uuid::Uuid;

use super::{CommitStep, Step, StepRefusal};

const JOB: JobId = JobId(Uuid::from_u128(1));

fn done(text: &str) -> StepState {
    StepState::Done(JsonText(text.to_owned()))
}

fn open(text: &str) -> StepState {
    StepState::Open(JsonText(text.to_owned()))
}

fn kept(number: u32, name: &str, state: StepState, journal_bytes: u64) -> Step {
    Step {
        job: JOB,
        number,
        name: name.to_owned(),
        state,
        at: Time(1),
        journal_bytes,
    }
}

fn commit(number: u32, name: &str, state: StepState) -> CommitStep {
    CommitStep {
        job: JOB,
        lease: LeaseId(Uuid::from_u128(2)),
        number,
        name: name.to_owned(),
        state,
        writes: None,
    }
}

#[test]
fn a_step_follows_one_that_is_done_and_replaces_only_its_own_checkpoint() {
    let first = || Some(kept(0, "a", done("1"), 2));
    let diverged = |name: &str, number| {
        let name = name.to_owned();
        Err(StepRefusal::Diverged { name, number })
    };
    for (commit, before, at_its_place, expected) in [
        (commit(0, "a", done("1")), None, None, Ok(2)),
        (commit(0, "a", open("12")), None, None, Ok(3)),
        (commit(1, "b", done("null")), first(), None, Ok(7)),
        // A checkpoint is counted once.
        (
            commit(1, "b", done("null")),
            first(),
            Some(kept(1, "b", open("123456"), 9)),
            Ok(7),
        ),
        (
            commit(1, "b", open("2")),
            first(),
            Some(kept(1, "b", open("1"), 4)),
            Ok(4),
        ),
        (commit(1, "b", done("1")), None, None, diverged("b", 1)),
        (
            commit(1, "b", done("1")),
            Some(kept(0, "a", open("1"), 2)),
            None,
            diverged("b", 1),
        ),
        (
            commit(0, "b", done("1")),
            None,
            Some(kept(0, "a", open("1"), 2)),
            diverged("b", 0),
        ),
        // So is a failure that the handler has caught.
        (
            commit(1, "b", done("null")),
            Some(kept(0, "a", StepState::Failed(JsonText("1".to_owned())), 2)),
            None,
            Ok(7),
        ),
        // A result is final.
        (commit(0, "a", done("2")), None, first(), diverged("a", 0)),
        (commit(0, "a", open("2")), None, first(), diverged("a", 0)),
    ] {
        let entered = commit.enter(Time(9), before.as_ref(), at_its_place.as_ref());
        if let Ok(step) = &entered {
            let same = (step.number, &step.name, &step.state, step.at);
            assert_eq!(same, (commit.number, &commit.name, &commit.state, Time(9)));
        }
        assert_eq!(entered.map(|step| step.journal_bytes), expected);
    }
}

#[test]
fn a_result_a_journal_and_the_number_of_steps_have_limits() {
    let most = "1".repeat(STEP_BYTES_MAX);
    assert!(
        commit(0, "a", done(&most))
            .enter(Time(9), None, None)
            .is_ok()
    );
    let refused = commit(0, "a", done(&format!("{most}1"))).enter(Time(9), None, None);
    assert!(matches!(refused, Err(StepRefusal::TooLarge { .. })));

    let before = |bytes| kept(0, "a", done("1"), bytes);
    let second = commit(1, "b", done("1"));
    let full = before(JOURNAL_BYTES_MAX - 2);
    assert!(second.enter(Time(9), Some(&full), None).is_ok());
    let too_full = before(JOURNAL_BYTES_MAX - 1);
    let refused = second.enter(Time(9), Some(&too_full), None);
    assert!(matches!(refused, Err(StepRefusal::Full { .. })));

    let last = kept(STEPS_MAX - 1, "a", done("1"), 2);
    let refused = commit(STEPS_MAX, "b", done("1")).enter(Time(9), Some(&last), None);
    assert_eq!(refused, Err(StepRefusal::TooMany { limit: STEPS_MAX }));
}
