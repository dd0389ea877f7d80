//! The steps that a history is made of, drawn at random.

use host_core::state::{StateWrite, StateWrites};
use host_core::transition::Loss;
use host_engine::limit::{Limit, WhenFull};
use proptest::prelude::*;

use crate::limit_keys::by_customer;

/// One step; numbers are modulo what exists.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Enqueue {
        jobs: u8,
        keyed: bool,
        depends: Option<u8>,
        priority: u8,
        delay_ms: u16,
        deadline_ms: Option<u16>,
        theirs: bool,
    },
    Claim {
        slots: u8,
        lane: u8,
        node: u8,
        remote: bool,
    },
    Say {
        lease: u8,
        message: Message,
    },
    Cancel {
        job: u8,
    },
    Retry {
        job: u8,
        force: bool,
    },
    Pause {
        paused: bool,
    },
    SetPriority {
        job: u8,
        priority: u8,
    },
    Reschedule {
        job: u8,
        delay_ms: u16,
    },
    Purge {
        job: u8,
    },
    Tick,
    Restart {
        node: u8,
    },
    SetState(KeyChange),
    SetSchedule {
        overlap: u8,
    },
    SetLimit(LimitChange),
    RemoveLimit {
        of_customers: bool,
    },
    NewBatch {
        is_open: bool,
        jobs: u8,
    },
    CloseBatch {
        batch: u8,
        cancelled: bool,
    },
    Fire {
        later_ms: u16,
        jobs: u8,
        refused: bool,
    },
}

/// A change of one of few keys. A value is as many bytes as its number.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyChange {
    pub(super) key: u8,
    pub(super) value: Option<u8>,
    pub(super) expected: Expected,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Expected {
    Anything,
    Nothing,
    Value(u8),
}

impl KeyChange {
    pub(super) fn writes(self) -> StateWrites {
        let bytes = |n: u8| vec![n; n.into()];
        StateWrites {
            space: "handler:noop".parse().unwrap(),
            quota_bytes: 150,
            writes: vec![StateWrite {
                key: format!("key-{}", self.key),
                value: self.value.map(bytes),
                expected: match self.expected {
                    Expected::Anything => None,
                    Expected::Nothing => Some(None),
                    Expected::Value(n) => Some(Some(bytes(n))),
                },
            }],
        }
    }
}

pub(super) fn key_change() -> impl Strategy<Value = KeyChange> {
    let expected = prop_oneof![
        2 => Just(Expected::Anything),
        1 => Just(Expected::Nothing),
        2 => (0_u8..4).prop_map(Expected::Value),
    ];
    (0_u8..3, proptest::option::of(0_u8..4), expected).prop_map(|(key, value, expected)| {
        KeyChange {
            key,
            value,
            expected,
        }
    })
}

/// A change of one of two limits: of each customer in all queues, and of all jobs in one.
#[derive(Clone, Copy, Debug)]
pub(super) struct LimitChange {
    pub(super) of_customers: bool,
    pub(super) concurrency: Option<u8>,
    pub(super) has_rate: bool,
    pub(super) has_units: bool,
    pub(super) when_full: WhenFull,
}

impl LimitChange {
    pub(super) fn limit(self) -> Limit {
        let rate = (2, 2, 3);
        let is_limited = self.concurrency.is_some()
            || (self.has_rate && self.when_full != WhenFull::CancelRunning);
        let concurrency = self
            .concurrency
            .map(u32::from)
            .or((!is_limited).then_some(2));
        let mut limit = if self.of_customers {
            by_customer(concurrency, self.has_rate.then_some(rate))
        } else {
            let mut limit = by_customer(concurrency, self.has_rate.then_some(rate));
            limit.name = "all".parse().unwrap();
            limit.key.clear();
            limit.matches.queues = vec!["default".to_owned().try_into().unwrap()];
            limit
        };
        if let Some(rate) = limit.rate.as_mut().filter(|_| self.has_units) {
            rate.units = Some("/units".to_owned().try_into().unwrap());
        }
        limit.when_full = self.when_full;
        limit
    }
}

pub(super) fn limit_change() -> impl Strategy<Value = LimitChange> {
    let concurrency = proptest::option::weighted(0.8, 1_u8..4);
    let when_full = prop_oneof![
        8 => Just(WhenFull::Wait),
        1 => Just(WhenFull::Refuse),
        1 => Just(WhenFull::ReplaceWaiting),
        3 => Just(WhenFull::CancelRunning),
    ];
    (
        any::<bool>(),
        concurrency,
        any::<bool>(),
        any::<bool>(),
        when_full,
    )
        .prop_map(
            |(of_customers, concurrency, has_rate, has_units, when_full)| LimitChange {
                of_customers,
                concurrency,
                has_rate,
                has_units,
                when_full,
            },
        )
}

/// A message from or about the holder of a lease.
#[derive(Clone, Copy, Debug)]
pub(super) enum Message {
    Ack,
    Heartbeat,
    Renewed {
        ms: u16,
    },
    Returned,
    /// Returned, with a change of state and perhaps a job that waits for another.
    Wrote {
        job: Option<u8>,
        change: KeyChange,
    },
    /// A checkpoint or the result of a step, with a change of state.
    Step {
        number: u8,
        name: bool,
        is_done: bool,
        change: KeyChange,
    },
    Failed {
        retryable: bool,
    },
    Lost(Loss),
    CancelAck,
    /// Holds the key of one of its limits.
    Holds {
        of_customers: bool,
        ms: u16,
    },
    AsksForRetry,
}

pub(super) fn message() -> impl Strategy<Value = Message> {
    prop_oneof![
        2 => Just(Message::Ack),
        1 => Just(Message::Heartbeat),
        1 => (0_u16..4_000).prop_map(|ms| Message::Renewed { ms }),
        2 => Just(Message::Returned),
        2 => (proptest::option::of(any::<u8>()), key_change())
            .prop_map(|(job, change)| Message::Wrote { job, change }),
        3 => (0_u8..3, proptest::bool::weighted(0.8), any::<bool>(), key_change())
            .prop_map(|(number, name, is_done, change)| Message::Step { number, name, is_done, change }),
        2 => any::<bool>().prop_map(|retryable| Message::Failed { retryable }),
        2 => loss().prop_map(Message::Lost),
        1 => Just(Message::CancelAck),
        2 => (any::<bool>(), 0_u16..2_000)
            .prop_map(|(of_customers, ms)| Message::Holds { of_customers, ms }),
        1 => Just(Message::AsksForRetry),
    ]
}

pub(super) fn loss() -> impl Strategy<Value = Loss> {
    prop_oneof![
        Just(Loss::Innocent),
        Just(Loss::NotBegun),
        Just(Loss::Unloaded),
        Just(Loss::WorkerGone),
        (2..65_usize).prop_map(|jobs| Loss::SharedWorkerGone { jobs }),
        (1..65_usize).prop_map(|jobs| Loss::CellDied { jobs }),
    ]
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1_u8..4, any::<bool>(), proptest::option::of(any::<u8>()), 0_u8..3, prop_oneof![2 => Just(0), 1 => 0_u16..2_000], proptest::option::weighted(0.2, 1_u16..5_000), proptest::bool::weighted(0.3))
            .prop_map(|(jobs, keyed, depends, priority, delay_ms, deadline_ms, theirs)| Step::Enqueue { jobs, keyed, depends, priority, delay_ms, deadline_ms, theirs }),
        4 => (1_u8..4, 0_u8..7, 0_u8..3, any::<bool>())
            .prop_map(|(slots, lane, node, remote)| Step::Claim { slots, lane, node, remote }),
        10 => (any::<u8>(), message()).prop_map(|(lease, message)| Step::Say { lease, message }),
        1 => any::<u8>().prop_map(|job| Step::Cancel { job }),
        1 => (any::<u8>(), any::<bool>()).prop_map(|(job, force)| Step::Retry { job, force }),
        1 => any::<bool>().prop_map(|paused| Step::Pause { paused }),
        1 => (any::<u8>(), 0_u8..10).prop_map(|(job, priority)| Step::SetPriority { job, priority }),
        1 => (any::<u8>(), 0_u16..3_000).prop_map(|(job, delay_ms)| Step::Reschedule { job, delay_ms }),
        1 => any::<u8>().prop_map(|job| Step::Purge { job }),
        3 => Just(Step::Tick),
        1 => (0_u8..3).prop_map(|node| Step::Restart { node }),
        1 => key_change().prop_map(Step::SetState),
        1 => (0_u8..5).prop_map(|overlap| Step::SetSchedule { overlap }),
        2 => limit_change().prop_map(Step::SetLimit),
        1 => any::<bool>().prop_map(|of_customers| Step::RemoveLimit { of_customers }),
        2 => (any::<bool>(), 0_u8..4).prop_map(|(is_open, jobs)| Step::NewBatch { is_open, jobs }),
        1 => (any::<u8>(), any::<bool>())
            .prop_map(|(batch, cancelled)| Step::CloseBatch { batch, cancelled }),
        2 => (0_u16..9_000, 0_u8..4, proptest::bool::weighted(0.2))
            .prop_map(|(later_ms, jobs, refused)| Step::Fire { later_ms, jobs, refused }),
    ]
}
