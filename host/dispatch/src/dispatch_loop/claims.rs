//! What the loop claims: jobs for the free slots of cells and foreign workers, while there may be some.

use std::collections::BTreeMap;

use host_cells::port::CellPort;
use host_core::name::Name;
use host_core::suspicion::GROUP_JOBS_MAX;
use host_core::time::Time;

use super::DispatchLoop;
use super::batch::{Batch, OfferedSlot, Target};

impl<P: CellPort> DispatchLoop<P> {
    /// Returns whether the loop claims jobs now.
    pub(super) fn claims(&self) -> bool {
        self.stops.may_start() && self.attempts.params_bytes_left() > 0
    }

    /// Returns whether a claim may find jobs that have room, except for suspects.
    pub(super) fn may_claim(&self) -> bool {
        let may_have = |executor: &Name| self.demand.of(executor) > 0;
        (self.demand.has_shared() && self.share.left() > 0 && self.cells.pool.free() > 0)
            || self.workers.requests.may_claim(may_have)
            || self.unconfigured.may_claim(may_have)
    }

    /// Plans a claim if there is room and there may be work.
    pub(super) fn plan_claim(&mut self, now: Time, batch: &mut Batch) {
        if !self.claims() || self.room.is_full() {
            return;
        }
        let wanted = self
            .demand
            .shared_slots(batch.newly_available_max)
            .min(self.share.left());
        let mut slots = Vec::new();
        for slot in self.cells.pool.offer(wanted) {
            let name = self.cells.pool.name(&slot).to_owned();
            slots.push(OfferedSlot::connected(Target::Cell(slot), name));
        }
        let mut apart = Vec::new();
        if self.demand.has_suspects() {
            apart = self.cells.pool.offer_apart(now);
        }
        for cell in &apart {
            let name = self.cells.pool.name(cell).to_owned();
            let slot = OfferedSlot::connected(Target::Cell(cell.clone()), name);
            slots.extend(std::iter::repeat_n(slot, GROUP_JOBS_MAX));
        }
        self.offer_workers(&batch.new_by_executor, &mut slots);
        if !slots.is_empty() {
            let except = self.unrunnable.clone();
            batch.claim(
                self.node,
                slots,
                apart,
                except,
                self.attempts.params_bytes_left(),
            );
        }
    }

    /// Offers the slots of foreign workers, and of executors that are not configured. `new` counts the
    /// new jobs of each executor in this batch.
    fn offer_workers(&mut self, new: &BTreeMap<Name, u64>, slots: &mut Vec<OfferedSlot>) {
        let demand = |executor: &Name| {
            let coming = new.get(executor).copied().unwrap_or_default();
            self.demand.of(executor).saturating_add(coming)
        };
        for offered in self.workers.requests.offer(demand) {
            let slot = OfferedSlot {
                target: Target::Request(offered.id, offered.executor),
                worker: offered.worker,
                hold: offered.hold,
            };
            slots.extend(std::iter::repeat_n(slot, offered.slots));
        }
        for (executor, count) in self.unconfigured.offer(demand) {
            let worker = executor.to_string();
            let slot = OfferedSlot::connected(Target::Unconfigured(executor), worker);
            slots.extend(std::iter::repeat_n(slot, count));
        }
    }
}
