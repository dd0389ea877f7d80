//! Generates `docs/states.md` and compares it; `cargo xtask test docs --update` updates it.

use std::fmt::Write as _;

use super::fixture::{self, LEASE, NODE, NOW, OTHER_LEASE, TTL, error, job_id};
use crate::failure::{Failure, FailureKind};
use crate::job::{Lifecycle, STATES, State};
use crate::lease::Fence;
use crate::outcome::Outcome;
use crate::policy::Policy;
use crate::time::Time;
use crate::transition::{Effect, Input, Loss, Refusal};

const DOC: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/states.md");

const INTRO: &str = "\
# States and inputs

What a job does in each state with each input. Generated from the rules (`host-core`,
`transition/`) by running them; `cargo xtask test docs --update` updates it.

A cell of the table names the state that follows and, after `+`, what has to be done. A refused
input changes nothing:

- `–`: the state does not allow the input (`WrongState`, `Terminal`).
- `stale`: the message is not about the current lease (`Stale`).
- `expired`: the lease named is over (`LeaseExpired`).
- `ack first`: the lease must be acknowledged before (`NotAcknowledged`).
- `not asked`: no cancel is requested (`CancelNotRequested`).

The running jobs here hold a lease by TTL of 30 s; the attempt is the first of five and a lost lease
does not cost one. `running, no ack` still has to acknowledge its lease, within 10 s;
`running, cancel` should stop within 5 s. `pending` waits for one more job, `pending, limit` for a
limit; `available, limit` has one.

";

type Row<'a> = (&'static str, Time, Input<'a>);

/// When a lease by TTL is over.
const LATE: Time = NOW.plus_ms(40_000);

fn inputs<'a>(current: &'a Fence, old: &'a Fence) -> Vec<Row<'a>> {
    let mut rows = while_it_runs(current, old);
    rows.extend(ends(current, old));
    rows.extend(cancels(current, old));
    rows.extend(without_a_worker());
    rows
}

fn while_it_runs<'a>(current: &'a Fence, old: &'a Fence) -> Vec<Row<'a>> {
    let claim = Input::Claim {
        node: NODE,
        lease: LEASE,
        worker: "cell-1",
        hold: TTL,
    };
    vec![
        ("claim", NOW, claim),
        ("ack", NOW, Input::Ack(current)),
        ("ack, old lease", NOW, Input::Ack(old)),
        ("ack after the lease", LATE, Input::Ack(current)),
        ("heartbeat", NOW, Input::Heartbeat(current)),
        ("heartbeat, old lease", NOW, Input::Heartbeat(old)),
        ("heartbeat after the lease", LATE, Input::Heartbeat(current)),
        ("holds a key", NOW, Input::Hold(current)),
        ("holds a key, old lease", NOW, Input::Hold(old)),
        ("renewed by the host", NOW, renew(current, LATE)),
        ("renewed by the host, old lease", NOW, renew(old, LATE)),
        (
            "renewed by the host after the lease",
            LATE,
            renew(current, LATE.plus_ms(1)),
        ),
    ]
}

const fn renew(fence: &Fence, until: Time) -> Input<'_> {
    Input::Renew {
        fence,
        until,
        host_was_away: false,
    }
}

fn ends<'a>(current: &'a Fence, old: &'a Fence) -> Vec<Row<'a>> {
    const COMPLETED: &Outcome = &Outcome::Completed { result: None };
    const CANCELLED: &Outcome = &Outcome::Cancelled { partial: None };
    const RETRY: &Outcome = &Outcome::Retry {
        reason: String::new(),
        after_ms: Some(0),
    };
    let retryable = Box::leak(Box::new(error(true)));
    let fatal = Box::leak(Box::new(error(false)));
    let complete = |outcome| Input::Complete(current, outcome);
    let lose = |loss| Input::Lose(current, loss);
    let old_give_back = Input::Lose(old, Loss::NotBegun);
    vec![
        ("complete: returned", NOW, complete(COMPLETED)),
        ("complete: retryable error", NOW, complete(retryable)),
        ("complete: final error", NOW, complete(fatal)),
        ("complete: asks for a retry", NOW, complete(RETRY)),
        ("complete: cancelled", NOW, complete(CANCELLED)),
        ("complete, old lease", NOW, Input::Complete(old, COMPLETED)),
        ("complete after the lease", LATE, complete(COMPLETED)),
        ("given back, not begun", NOW, lose(Loss::NotBegun)),
        ("given back, old lease", NOW, old_give_back),
        ("given back after the lease", LATE, lose(Loss::NotBegun)),
        ("lost: component not loaded", NOW, lose(Loss::Unloaded)),
        ("lost: worker gone", NOW, lose(Loss::WorkerGone)),
        (
            "lost: worker of several jobs gone",
            NOW,
            lose(Loss::SharedWorkerGone { jobs: 2 }),
        ),
        (
            "lost: cell died, alone",
            NOW,
            lose(Loss::CellDied { jobs: 1 }),
        ),
        ("lost: host restarted", NOW, lose(Loss::HostRestarted)),
    ]
}

fn cancels<'a>(current: &'a Fence, old: &'a Fence) -> Vec<Row<'a>> {
    let cancel = Input::Cancel {
        reason: None,
        grace_ms: Some(5_000),
    };
    let late_ack = Input::CancelAck(current);
    vec![
        ("cancel", NOW, cancel),
        (
            "cancel received",
            NOW,
            Input::CancelReceived(current, 1_000),
        ),
        ("cancel acknowledged", NOW, Input::CancelAck(current)),
        ("cancel acknowledged, old lease", NOW, Input::CancelAck(old)),
        ("cancel acknowledged after the lease", LATE, late_ack),
    ]
}

fn without_a_worker() -> Vec<Row<'static>> {
    let eight_days = NOW.plus_ms(8 * 24 * 3_600_000);
    let failure = Failure::new(FailureKind::InputFailed, "input_failed");
    let unfit = Box::leak(Box::new(failure));
    let ended = |of, state| Input::PrerequisiteEnded(job_id(of), state);
    let retry = |prerequisites_open| Input::Retry { prerequisites_open };
    vec![
        ("tick, nothing due", NOW, Input::Tick),
        ("tick, 6 s later", NOW.plus_ms(6_000), Input::Tick),
        ("tick, 40 s later", LATE, Input::Tick),
        ("tick, 8 days later", eight_days, Input::Tick),
        ("operator's retry", NOW, retry(0)),
        ("operator's retry, open prerequisite", NOW, retry(1)),
        ("operator's priority", NOW, Input::SetPriority(0)),
        ("operator's start, now", NOW, Input::Reschedule(NOW)),
        ("operator's start, later", NOW, Input::Reschedule(LATE)),
        ("operator's purge", NOW, Input::Purge),
        ("prerequisite completed", NOW, ended(2, State::Completed)),
        (
            "prerequisite was discarded or cancelled",
            NOW,
            ended(2, State::Discarded),
        ),
        (
            "prerequisite that has to fail was discarded",
            NOW,
            ended(3, State::Discarded),
        ),
        (
            "prerequisite that has to fail completed or was cancelled",
            NOW,
            ended(3, State::Completed),
        ),
        ("input cannot be given", NOW, Input::InputFailed(unfit)),
        ("limit has room", NOW, Input::Admit),
        ("key is held", NOW, Input::Withhold(0)),
    ]
}

/// Returns a job in each state, the running one in each of the forms that the rules tell apart.
fn columns() -> Vec<(&'static str, Lifecycle)> {
    let mut columns = Vec::new();
    for state in STATES {
        let job = fixture::in_state(state, TTL);
        assert_eq!(job.state, state);
        if state != State::Running {
            columns.push((state.as_str(), job));
            if state == State::Pending {
                columns.push(("pending, limit", fixture::held_back()));
            }
            if state == State::Available {
                columns.push(("available, limit", fixture::limited()));
            }
            continue;
        }
        let unacknowledged = fixture::running(
            Policy {
                ack_window_ms: Some(10_000),
                ..Policy::default()
            },
            TTL,
        );
        let mut cancelling = job.clone();
        let cancel = Input::Cancel {
            reason: None,
            grace_ms: Some(5_000),
        };
        cancelling.apply(NOW, &cancel).unwrap();
        columns.push(("running, no ack", unacknowledged));
        columns.push(("running", job));
        columns.push(("running, cancel", cancelling));
    }
    columns
}

fn effect_name(effect: &Effect) -> &'static str {
    match effect {
        Effect::Stop { .. } => "stop",
        Effect::Revoke { .. } => "revoke",
        Effect::AttemptLost { .. } => "attempt lost",
        Effect::Failed { .. } => "failed",
        Effect::Purge => "purge",
    }
}

fn outcome_cell(job: &mut Lifecycle, now: Time, input: &Input<'_>) -> String {
    match job.apply(now, input) {
        Ok(effects) => effects
            .iter()
            .fold(job.state.as_str().to_owned(), |mut cell, effect| {
                let _ = write!(cell, " + {}", effect_name(effect));
                cell
            }),
        Err(Refusal::Stale) => "stale".to_owned(),
        Err(Refusal::Expired) => "expired".to_owned(),
        Err(Refusal::NotAcknowledged) => "ack first".to_owned(),
        Err(Refusal::CancelNotRequested) => "not asked".to_owned(),
        Err(Refusal::WrongState(_) | Refusal::Terminal(_)) => "–".to_owned(),
        Err(other) => panic!("{input:?} is refused with {other:?}"),
    }
}

fn generate() -> String {
    let current = Fence::Lease(LEASE);
    let old = Fence::Lease(OTHER_LEASE);
    let mut doc = INTRO.to_owned();
    doc.push_str("| input |");
    for (name, _) in columns() {
        let _ = write!(doc, " {name} |");
    }
    doc.push_str("\n|---|");
    doc.push_str(&"---|".repeat(columns().len()));
    doc.push('\n');
    for (name, now, input) in inputs(&current, &old) {
        let _ = write!(doc, "| {name} |");
        for (_, mut job) in columns() {
            let _ = write!(doc, " {} |", outcome_cell(&mut job, now, &input));
        }
        doc.push('\n');
    }
    doc
}

#[test]
fn the_published_table_is_what_the_rules_do() {
    let generated = generate();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(DOC, &generated).unwrap();
    }
    let published = std::fs::read_to_string(DOC).unwrap_or_default();
    assert_eq!(
        published, generated,
        "docs/states.md is out of date: run `cargo xtask test docs --update`"
    );
}

#[test]
fn only_an_operator_leaves_a_terminal_state() {
    let current = Fence::Lease(LEASE);
    let old = Fence::Lease(OTHER_LEASE);
    for state in STATES.into_iter().filter(|state| state.is_terminal()) {
        for (name, now, input) in inputs(&current, &old) {
            let mut job = fixture::in_state(state, TTL);
            let before = job.clone();
            let _ = job.apply(now, &input);
            let may_leave = matches!(input, Input::Retry { .. }) && state != State::Completed;
            assert_eq!(job == before, !may_leave, "{name} in {state:?}");
        }
    }
}
