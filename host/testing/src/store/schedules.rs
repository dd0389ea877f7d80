//! Schedules of a store in memory.

use host_core::name::Name;
use host_core::schedule::{FIRINGS_KEPT, Firing, KeptSchedule};
use host_store::StoreError;
use host_store::engine::ScheduleRows;

use super::Model;

impl ScheduleRows for Model {
    fn schedule(&mut self, name: &Name) -> Result<Option<KeptSchedule>, StoreError> {
        Ok(self.schedules.get(name).cloned())
    }

    fn count_schedules(&mut self) -> Result<u64, StoreError> {
        Ok(self.schedules.len() as u64)
    }

    fn put_schedule(&mut self, kept: &KeptSchedule) -> Result<(), StoreError> {
        let name = kept.schedule.name.clone();
        self.schedules.insert(name, kept.clone());
        Ok(())
    }

    fn remove_schedule(&mut self, name: &Name) -> Result<(), StoreError> {
        self.schedules.remove(name);
        self.firings.remove(name);
        Ok(())
    }

    fn add_firings(&mut self, name: &Name, _last: u64, new: &[Firing]) -> Result<(), StoreError> {
        let firings = self.firings.entry(name.clone()).or_default();
        firings.extend_from_slice(new);
        let old = firings
            .len()
            .saturating_sub(usize::try_from(FIRINGS_KEPT).unwrap_or_default());
        firings.drain(..old);
        Ok(())
    }
}
