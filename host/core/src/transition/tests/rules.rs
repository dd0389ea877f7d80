//! Single rules that the table is too coarse to show.

use super::fixture::{LEASE, NODE, NOW, TTL, available, claim, error, in_state, new_job, running};
use crate::failure::{FAILURE_KINDS, Failure, FailureKind};
use crate::job::{Lifecycle, State};
use crate::lease::{Fence, Hold, Revocation};
use crate::outcome::Outcome;
use crate::policy::{Backoff, OnGraceExpired, Policy, Retention, RetentionChoice};
use crate::suspicion::{LONE_DEATHS_MAX, Suspicion};
use crate::time::Time;
use crate::transition::{Effect, Exit, FREE_LOSSES_MAX, Input, Loss, Refusal};

const FENCE: Fence = Fence::Lease(LEASE);
const RETURNED: Outcome = Outcome::Completed { result: None };

fn lose(job: &mut Lifecycle, loss: Loss) {
    job.apply(NOW, &Input::Lose(&FENCE, loss)).unwrap();
}

fn cancel(job: &mut Lifecycle, grace_ms: Option<u64>) -> Result<Vec<Effect>, Refusal> {
    let input = Input::Cancel {
        reason: Some("enough"),
        grace_ms,
    };
    job.apply(NOW, &input)
}

#[test]
fn attempts_that_count_are_limited() {
    let mut job = available(Policy {
        max_attempts: 2,
        ..Policy::default()
    });
    claim(&mut job, NOW, Hold::Connection);
    job.apply(NOW, &Input::Complete(&FENCE, &error(true)))
        .unwrap();
    assert_eq!(job.state, State::Retryable);
    let due = job.wakeup().unwrap();
    job.apply(due, &Input::Tick).unwrap();
    claim(&mut job, due, Hold::Connection);
    job.apply(due, &Input::Complete(&FENCE, &error(true)))
        .unwrap();
    assert_eq!((job.state, job.attempt), (State::Discarded, 2));
}

#[test]
fn by_default_a_job_outlives_an_outage_of_hours() {
    let mut job = available(Policy::default());
    let mut now = NOW;
    while job.state != State::Discarded {
        job.apply(now, &Input::Tick).unwrap();
        claim(&mut job, now, Hold::Connection);
        job.apply(now, &Input::Complete(&FENCE, &error(true)))
            .unwrap();
        now = job.run_at.unwrap_or(now);
    }
    let hours = now.since_ms(NOW) / 3_600_000;
    assert_eq!(job.attempt, 20);
    // Eight, if the pauses are spread evenly.
    assert!((7..=9).contains(&hours), "{hours}");
}

#[test]
fn the_first_losses_are_free_and_later_ones_count() {
    let mut job = available(Policy {
        max_attempts: 1,
        ..Policy::default()
    });
    for loss in 1..=FREE_LOSSES_MAX {
        claim(&mut job, NOW, Hold::Connection);
        lose(&mut job, Loss::HostRestarted);
        assert_eq!((job.state, job.attempt), (State::Available, loss));
    }
    claim(&mut job, NOW, Hold::Connection);
    lose(&mut job, Loss::HostRestarted);
    assert_eq!(job.state, State::Discarded);
}

#[test]
fn what_did_not_begin_is_no_attempt() {
    let mut job = available(Policy {
        max_attempts: 1,
        lost_lease_costs_attempt: true,
        ..Policy::default()
    });
    for _ in 0..=FREE_LOSSES_MAX {
        claim(&mut job, NOW, Hold::Connection);
        let effects = job.apply(NOW, &Input::Lose(&FENCE, Loss::NotBegun));
        assert_eq!(effects, Ok(Vec::new()));
        assert_eq!(job.state, State::Available);
        assert_eq!((job.attempts_charged(), job.failure), (0, None));
    }
    claim(&mut job, NOW, Hold::Connection);
    let cancel = Input::Cancel {
        reason: None,
        grace_ms: None,
    };
    job.apply(NOW, &cancel).unwrap();
    job.apply(NOW, &Input::Lose(&FENCE, Loss::NotBegun))
        .unwrap();
    assert_eq!(job.state, State::Cancelled);
}

#[test]
fn what_did_not_begin_uses_up_no_free_loss() {
    let mut job = available(Policy {
        max_attempts: 1,
        ..Policy::default()
    });
    for _ in 0..=FREE_LOSSES_MAX {
        claim(&mut job, NOW, Hold::Connection);
        lose(&mut job, Loss::NotBegun);
    }
    for _ in 0..FREE_LOSSES_MAX {
        claim(&mut job, NOW, Hold::Connection);
        lose(&mut job, Loss::WorkerGone);
        assert_eq!(job.state, State::Available);
    }
    claim(&mut job, NOW, Hold::Connection);
    lose(&mut job, Loss::WorkerGone);
    assert_eq!(job.state, State::Discarded);
}

/// Its worker would do nothing again, immediately and five times for free.
#[test]
fn a_worker_that_exits_before_it_acknowledges_costs_an_attempt_and_the_next_one_waits() {
    let backoff = Backoff {
        base_ms: 1_000,
        max_ms: 8_000,
    };
    let mut job = available(Policy {
        max_attempts: 2,
        backoff,
        ack_window_ms: Some(30_000),
        ..Policy::default()
    });
    let exited = Loss::Exited(Exit::Status(1));
    claim(&mut job, NOW, Hold::Connection);
    job.apply(NOW, &Input::Lose(&FENCE, exited)).unwrap();
    assert_eq!((job.state, job.attempts_charged()), (State::Retryable, 1));
    let due = NOW.plus_ms(backoff.delay_ms(job.id, 1));
    assert_eq!(job.wakeup(), Some(due));
    job.apply(due, &Input::Tick).unwrap();
    // One that had acknowledged its lease is a loss like others.
    claim(&mut job, due, Hold::Connection);
    job.apply(due, &Input::Ack(&FENCE)).unwrap();
    job.apply(due, &Input::Lose(&FENCE, exited)).unwrap();
    assert_eq!((job.state, job.attempts_charged()), (State::Available, 1));
    claim(&mut job, due, Hold::Connection);
    job.apply(due, &Input::Lose(&FENCE, exited)).unwrap();
    assert_eq!(job.state, State::Discarded);
}

#[test]
fn parts_of_a_log_follow_each_other_and_extend_the_lease() {
    let mut job = running(Policy::default(), TTL);
    let log = |job: &mut Lifecycle, now: Time, offset: u64, bytes: u64| {
        let input = Input::Log {
            fence: &FENCE,
            offset,
            bytes,
        };
        job.apply(now, &input).map(drop)
    };
    let later = NOW.plus_ms(29_000);
    assert_eq!(log(&mut job, later, 0, 10), Ok(()));
    assert_eq!(
        job.lease.as_ref().unwrap().expires_at,
        Some(later.plus_ms(30_000))
    );
    for (offset, bytes) in [(0, 10), (9, 5), (11, 1)] {
        let refused = log(&mut job, later, offset, bytes);
        assert_eq!(refused, Err(Refusal::LogOffset { next: 10 }), "{offset}");
    }
    assert_eq!(log(&mut job, later, 10, 5), Ok(()));
    assert_eq!(job.lease.as_ref().unwrap().logged, 15);
    // One that is not acknowledged has no log.
    let mut job = running(
        Policy {
            ack_window_ms: Some(1_000),
            ..Policy::default()
        },
        TTL,
    );
    assert_eq!(log(&mut job, NOW, 0, 1), Err(Refusal::NotAcknowledged));
}

#[test]
fn a_job_lost_beside_others_runs_again_at_once_and_is_never_charged() {
    for loss in [
        Loss::SharedWorkerGone { jobs: 9 },
        Loss::CellDied { jobs: 9 },
    ] {
        let mut job = available(Policy {
            max_attempts: 1,
            lost_lease_costs_attempt: true,
            ..Policy::default()
        });
        for _ in 0..2 * FREE_LOSSES_MAX {
            claim(&mut job, NOW, Hold::Connection);
            lose(&mut job, loss);
            assert_eq!((job.state, job.attempts_charged()), (State::Available, 0));
        }
        claim(&mut job, NOW, Hold::Connection);
        job.apply(NOW, &Input::Complete(&FENCE, &error(true)))
            .unwrap();
        let ended = (State::Discarded, Suspicion::NONE);
        assert_eq!((job.state, job.suspicion), ended);
    }
}

#[test]
fn pauses_grow_with_the_attempts_that_count() {
    let mut job = available(Policy::default());
    for _ in 0..3 {
        claim(&mut job, NOW, Hold::Connection);
        lose(&mut job, Loss::HostRestarted);
    }
    claim(&mut job, NOW, Hold::Connection);
    job.apply(NOW, &Input::Complete(&FENCE, &error(true)))
        .unwrap();
    let first = job.policy.backoff.delay_ms(job.id, 1);
    assert_eq!(job.attempt, 4);
    assert_eq!(job.wakeup(), Some(NOW.plus_ms(first)));
}

#[test]
fn a_job_alone_in_dead_cells_is_poison() {
    let mut job = available(Policy::default());
    claim(&mut job, NOW, Hold::Connection);
    lose(&mut job, Loss::CellDied { jobs: 64 });
    assert!(!job.suspicion.is_apart(), "one loss says little");
    for death in 1..=LONE_DEATHS_MAX {
        assert_eq!(job.state, State::Available, "before death {death}");
        claim(&mut job, NOW, Hold::Connection);
        lose(&mut job, Loss::CellDied { jobs: 1 });
    }
    assert_eq!(job.state, State::Discarded);
    assert_eq!(job.failure, Some(FailureKind::Poison));
}

#[test]
fn a_suspect_that_finishes_an_attempt_is_cleared() {
    let mut job = available(Policy::default());
    for _ in 0..2 {
        claim(&mut job, NOW, Hold::Connection);
        lose(&mut job, Loss::CellDied { jobs: 64 });
    }
    assert!(job.suspicion.is_apart());
    claim(&mut job, NOW, Hold::Connection);
    job.apply(NOW, &Input::Complete(&FENCE, &error(true)))
        .unwrap();
    assert_eq!(job.suspicion, Suspicion::NONE);
}

#[test]
fn a_cancel_wins_over_everything_but_a_result() {
    let outcomes = [
        (RETURNED, State::Completed),
        (error(true), State::Cancelled),
        (
            Outcome::Retry {
                reason: String::new(),
                after_ms: None,
            },
            State::Cancelled,
        ),
        (Outcome::Cancelled { partial: None }, State::Cancelled),
    ];
    for (outcome, state) in outcomes {
        let mut job = running(Policy::default(), Hold::Connection);
        cancel(&mut job, None).unwrap();
        assert_eq!(job.state, State::Running, "it runs until it has stopped");
        job.apply(NOW, &Input::Complete(&FENCE, &outcome)).unwrap();
        assert_eq!(job.state, state, "{outcome:?}");
    }
}

#[test]
fn an_attempt_that_stopped_by_itself_ends_its_job_as_cancelled_and_nobody_asked() {
    let failure = Failure::new(FailureKind::Cancelled, "the machine went away");
    for outcome in [
        Outcome::Cancelled { partial: None },
        Outcome::Failed(failure),
    ] {
        let mut job = running(Policy::default(), Hold::Connection);
        job.apply(NOW, &Input::Complete(&FENCE, &outcome)).unwrap();
        assert_eq!(job.state, State::Cancelled, "{outcome:?}");
        assert_eq!(job.failure, Some(FailureKind::Cancelled));
        assert_eq!(job.cancel, None);
    }
}

#[test]
fn a_cancel_outlives_the_loss_of_its_lease() {
    let mut job = running(Policy::default(), Hold::Connection);
    cancel(&mut job, None).unwrap();
    lose(&mut job, Loss::HostRestarted);
    assert_eq!(job.state, State::Cancelled);
}

#[test]
fn a_repeated_cancel_only_shortens_the_grace() {
    let mut job = running(Policy::default(), TTL);
    cancel(&mut job, Some(5_000)).unwrap();
    cancel(&mut job, Some(9_000)).unwrap();
    assert_eq!(job.wakeup(), Some(NOW.plus_ms(5_000)));
    cancel(&mut job, Some(1_000)).unwrap();
    assert_eq!(job.wakeup(), Some(NOW.plus_ms(1_000)));
}

#[test]
fn an_ended_job_is_kept_as_long_as_its_end_deserves() {
    let retention = Retention {
        ms: 10,
        discarded_ms: 20,
    };
    for (state, kept_ms) in [
        (State::Completed, 10),
        (State::Cancelled, 10),
        (State::Discarded, 20),
    ] {
        let mut job = in_state(state, Hold::Connection);
        job.policy.retention = retention;
        let end = NOW.plus_ms(kept_ms);
        assert_eq!((job.kept_until(), job.wakeup()), (Some(end), Some(end)));
        let before = NOW.plus_ms(kept_ms - 1);
        assert_eq!(job.apply(before, &Input::Tick).unwrap(), [], "{state:?}");
        assert_eq!(job.apply(end, &Input::Tick).unwrap(), [Effect::Purge]);
    }
    assert_eq!(available(Policy::default()).kept_until(), None);
}

#[test]
fn the_closest_choice_of_a_retention_counts() {
    let choice = |ms, discarded_ms| RetentionChoice { ms, discarded_ms };
    let default = Retention {
        ms: 1,
        discarded_ms: 2,
    };
    #[rustfmt::skip]
    let table = [
        // the job's               its queue's             becomes
        (choice(None, None),       choice(None, None),     (1, 2)),
        (choice(None, None),       choice(Some(5), None),  (5, 5)),
        (choice(Some(7), None),    choice(Some(5), None),  (7, 7)),
        (choice(Some(7), None),    choice(None, Some(6)),  (7, 6)),
        (choice(None, Some(8)),    choice(Some(5), None),  (5, 8)),
        (choice(None, Some(8)),    choice(None, None),     (1, 8)),
        (choice(Some(7), Some(8)), choice(Some(5), Some(6)), (7, 8)),
    ];
    for (job, queue, (ms, discarded_ms)) in table {
        let kept = job.or(queue).over(default);
        assert_eq!(kept, Retention { ms, discarded_ms }, "{job:?}, {queue:?}");
    }
}

#[test]
fn an_unanswered_cancel_ends_as_the_policy_says() {
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
        let policy = Policy {
            on_grace_expired,
            ..Policy::default()
        };
        let mut job = running(policy, TTL);
        cancel(&mut job, Some(1_000)).unwrap();
        let effects = job.apply(NOW.plus_ms(1_000), &Input::Tick).unwrap();
        assert_eq!((job.state, job.failure), (state, Some(kind)));
        assert!(effects.contains(&Effect::Revoke {
            lease: LEASE,
            why: Revocation::Cancelled,
        }));
    }
}

#[test]
fn no_attempt_starts_or_follows_after_the_deadline() {
    let mut new = new_job(Policy::default());
    new.deadline = Some(NOW.plus_ms(500));
    let mut waiting = Lifecycle::accept(NOW, &new, 0);
    let claim_late = Input::Claim {
        node: NODE,
        lease: LEASE,
        worker: "cell-1",
        hold: Hold::Connection,
    };
    assert!(waiting.apply(NOW.plus_ms(500), &claim_late).is_err());
    waiting.apply(NOW.plus_ms(500), &Input::Tick).unwrap();
    assert_eq!(waiting.state, State::Discarded);
    assert_eq!(waiting.failure, Some(FailureKind::TimedOut));

    let mut failing = Lifecycle::accept(NOW, &new, 0);
    claim(&mut failing, NOW, Hold::Connection);
    failing
        .apply(NOW, &Input::Complete(&FENCE, &error(true)))
        .unwrap();
    assert_eq!(
        failing.state,
        State::Discarded,
        "its backoff is longer than what is left"
    );
}

#[test]
fn an_operators_retry_forgives_the_attempts_and_keeps_the_history() {
    let mut job = available(Policy {
        max_attempts: 1,
        ..Policy::default()
    });
    claim(&mut job, NOW, Hold::Connection);
    job.apply(NOW, &Input::Complete(&FENCE, &error(true)))
        .unwrap();
    assert_eq!(job.state, State::Discarded);
    let retry = Input::Retry {
        prerequisites_open: 0,
    };
    job.apply(NOW, &retry).unwrap();
    assert_eq!(
        (
            job.state,
            job.attempt,
            job.lease_epoch,
            job.attempts_charged()
        ),
        (State::Available, 1, 1, 0)
    );
    claim(&mut job, NOW, Hold::Connection);
    assert_eq!(job.attempt, 2);
}

#[test]
fn backoff_doubles_to_its_cap_within_its_spread() {
    let backoff = Backoff {
        base_ms: 1_000,
        max_ms: 60_000,
    };
    let job = super::fixture::job_id(99);
    for attempt in 1..=200 {
        let exact = 1_000_u64
            .saturating_mul(1_u64.checked_shl(attempt - 1).unwrap_or(u64::MAX))
            .min(60_000);
        let delay = backoff.delay_ms(job, attempt);
        assert!(
            delay >= exact * 8 / 10 && delay <= exact * 12 / 10,
            "{attempt}: {delay}"
        );
        assert_eq!(delay, backoff.delay_ms(job, attempt), "the same each time");
    }
}

#[test]
fn the_kinds_follow_the_published_table() {
    let table: Vec<String> = FAILURE_KINDS
        .iter()
        .map(|kind| {
            let retried = if kind.is_retryable() {
                "retried"
            } else {
                "final"
            };
            format!("{} {:?} {retried}", kind.as_str(), kind.category())
        })
        .collect();
    assert_eq!(
        table,
        [
            "user_error UserCode retried",
            "trapped UserCode retried",
            "fuel_exhausted Timeout final",
            "timed_out Timeout retried",
            "memory_limit Infrastructure retried",
            "result_too_large UserCode final",
            "invalid_params DataQuality final",
            "handler_not_found Configuration final",
            "grant_missing Configuration final",
            "cancelled Cancelled final",
            "cancel_timeout Cancelled final",
            "lease_lost Infrastructure retried",
            "cell_lost Infrastructure retried",
            "poison Infrastructure final",
            "prerequisite_failed Configuration final",
            "writes_refused UserCode retried",
            "input_failed DataQuality final",
            "steps_diverged Configuration final",
        ]
    );
}

#[test]
fn a_handler_decides_about_its_own_errors_only() {
    let own = |retryable| Failure {
        retryable,
        ..Failure::new(FailureKind::UserError, "")
    };
    assert!(own(None).is_retryable() && own(Some(true)).is_retryable());
    assert!(!own(Some(false)).is_retryable());
    let fuel = Failure {
        retryable: Some(true),
        ..Failure::new(FailureKind::FuelExhausted, "")
    };
    assert!(!fuel.is_retryable());
    let final_timeout = Failure {
        retryable: Some(false),
        ..Failure::new(FailureKind::TimedOut, "too late")
    };
    assert!(
        !final_timeout.is_retryable(),
        "a wire may know of no other attempt"
    );
}

#[test]
fn a_retry_that_is_asked_for_raises_the_backoff_and_never_lowers_it() {
    let policy = Policy {
        max_attempts: 5,
        ..Policy::default()
    };
    for (after_ms, is_longer) in [(None, false), (Some(1), false), (Some(60_000), true)] {
        let mut job = available(policy.clone());
        let again = Outcome::Retry {
            reason: "429".to_owned(),
            after_ms,
        };
        let mut now = NOW;
        for attempt in 1..policy.max_attempts {
            claim(&mut job, now, Hold::Connection);
            job.apply(now, &Input::Complete(&FENCE, &again)).unwrap();
            let waits_ms = job.wakeup().unwrap().since_ms(now);
            let backoff_ms = policy.backoff.delay_ms(job.id, attempt);
            let expected = if is_longer { 60_000 } else { backoff_ms };
            assert_eq!(waits_ms, expected, "{after_ms:?} after attempt {attempt}");
            now = job.wakeup().unwrap();
            job.apply(now, &Input::Tick).unwrap();
        }
    }
}

#[test]
fn attempts_that_hold_a_key_and_ask_for_a_retry_do_not_count_up_to_a_number() {
    let mut job = available(Policy {
        max_attempts: 1,
        ..Policy::default()
    });
    let again = Outcome::Retry {
        reason: "429".to_owned(),
        after_ms: Some(0),
    };
    let mut now = NOW;
    for attempt in 1..=1_001 {
        claim(&mut job, now, Hold::Connection);
        job.apply(now, &Input::Hold(&FENCE)).unwrap();
        job.apply(now, &Input::Complete(&FENCE, &again)).unwrap();
        assert_eq!(job.state.is_terminal(), attempt == 1_001, "{attempt}");
        if job.state == State::Retryable {
            now = job.wakeup().unwrap();
            job.apply(now, &Input::Tick).unwrap();
        }
    }
}
