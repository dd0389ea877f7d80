//! What becomes of a job when those that it depends on end.

use super::fixture::{NOW, job_id, new_job, waiting};
use crate::failure::FailureKind;
use crate::job::{Lifecycle, State};
use crate::policy::Policy;
use crate::prerequisite::{Conditions, Verdict, When};
use crate::transition::{Input, Refusal};

#[test]
fn each_condition_is_met_by_the_ends_that_it_names() {
    use Verdict::{Failed, Met, Unneeded};
    for (when, verdicts) in [
        (When::Completed, [Met, Failed, Failed]),
        (When::Ended, [Met, Met, Met]),
        (When::Failed, [Unneeded, Unneeded, Met]),
    ] {
        let of =
            [State::Completed, State::Cancelled, State::Discarded].map(|ended| when.judge(ended));
        assert_eq!(of, verdicts, "{when:?}");
    }
}

#[test]
fn a_job_that_is_not_needed_is_cancelled_with_the_reason() {
    for (state, end) in [
        (State::Completed, "completed"),
        (State::Cancelled, "was cancelled"),
    ] {
        let mut job = waiting();
        job.prerequisites_open = 2;
        let effects = job.apply(NOW, &Input::PrerequisiteEnded(job_id(3), state));
        assert_eq!(effects, Ok(Vec::new()));
        let kind = Some(FailureKind::Cancelled);
        assert_eq!((job.state, job.failure), (State::Cancelled, kind));
        let reason = job.cancel.as_ref().and_then(|it| it.reason.as_deref());
        let expected = format!("not needed: job {} {end}, and did not fail", job_id(3));
        assert_eq!(reason, Some(expected.as_str()));
        let again = Input::PrerequisiteEnded(job_id(2), State::Completed);
        let refused = Err(Refusal::WrongState(State::Cancelled));
        assert_eq!(job.apply(NOW, &again), refused);
    }
}

#[test]
fn a_job_that_stands_for_several_must_end_as_all_of_them() {
    let states = [State::Completed, State::Discarded, State::Cancelled];
    for (conditions, expected) in [
        (
            [When::Ended, When::Failed],
            [State::Cancelled, State::Available, State::Cancelled],
        ),
        (
            [When::Completed, When::Ended],
            [State::Available, State::Discarded, State::Discarded],
        ),
        // No end is both.
        (
            [When::Failed, When::Completed],
            [State::Cancelled, State::Discarded, State::Discarded],
        ),
    ] {
        let mut new = new_job(Policy::default());
        let when = conditions.map(|when| (job_id(4), when)).to_vec();
        new.conditions = Conditions {
            when,
            ..Conditions::default()
        }
        .some();
        let after = states.map(|state| {
            let mut job = Lifecycle::accept(NOW, &new, 1);
            let input = Input::PrerequisiteEnded(job_id(4), state);
            job.apply(NOW, &input).unwrap();
            job.state
        });
        assert_eq!(after, expected, "{conditions:?}");
    }
}
