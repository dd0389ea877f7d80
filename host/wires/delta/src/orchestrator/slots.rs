//! The places of the pools whose runners this host starts, as people see them. Starts nothing.

use std::collections::BTreeMap;

use host_core::name::Name;
use host_wire_kit::executors::{WorkerHealth, WorkerState};
use host_wire_kit::process::{Output, Reason};
use parking_lot::Mutex;

use crate::settings::PoolConfig;

/// What a place is, for people.
#[derive(Debug)]
pub(super) struct Slot {
    state: WorkerState,
    pub(super) pid: Option<u32>,
    /// How many of its processes in a row were of no use.
    pub(super) failures: u32,
    pub(super) reason: Reason,
}

/// The places of all pools.
#[derive(Debug)]
pub(super) struct Slots(BTreeMap<Name, Mutex<Vec<Slot>>>);

impl Slots {
    pub(super) fn new(pools: &[PoolConfig]) -> Self {
        let slot = || {
            let mut reason = Reason::default();
            reason.set("this host does not listen for HTTP, where its runners report");
            Slot {
                state: WorkerState::Down,
                pid: None,
                failures: 0,
                reason,
            }
        };
        let slots = pools.iter().filter_map(|pool| {
            let launch = pool.launch.as_ref()?;
            let slots = (0..launch.pool_size).map(|_| slot()).collect();
            Some((pool.name.clone(), Mutex::new(slots)))
        });
        Self(slots.collect())
    }

    /// Changes a place of a pool, counted from 1.
    pub(super) fn change(&self, pool: &Name, number: usize, change: impl FnOnce(&mut Slot)) {
        let slots = self.0.get(pool);
        if let (Some(slots), Some(at)) = (slots, number.checked_sub(1))
            && let Some(slot) = slots.lock().get_mut(at)
        {
            change(slot);
        }
    }

    /// Returns how the places of a pool are.
    pub(super) fn health(&self, pool: &Name) -> Vec<WorkerHealth> {
        let Some(slots) = self.0.get(pool) else {
            return Vec::new();
        };
        (1..)
            .zip(&*slots.lock())
            .map(|(number, slot)| WorkerHealth {
                pid: slot.pid,
                failures: slot.failures,
                reason: slot
                    .reason
                    .text()
                    .filter(|_| slot.state != WorkerState::Up)
                    .map(str::to_owned),
                ..WorkerHealth::new(pool, number, slot.state)
            })
            .collect()
    }
}

impl Slot {
    pub(super) fn is_up(&mut self, pid: Option<u32>) {
        self.state = WorkerState::Up;
        self.pid = pid;
        self.reason.clear();
    }

    pub(super) fn has_failed(&mut self, why: &str) {
        self.state = WorkerState::Down;
        self.failures += 1;
        self.reason.note(Output::Host, why);
    }
}
