//! The rows of state of one open transaction, for the engine. All that the batch names are loaded already.

use host_core::state::{Space, Usage};
use host_core::time::Time;
use host_engine::StoreError;
use host_engine::state::StateRows;

use super::rows::Transaction;

impl StateRows for Transaction<'_> {
    fn state_usage(&mut self, space: &Space) -> Result<Usage, StoreError> {
        self.overlay.state.usage(space)
    }

    fn state_length(&mut self, space: &Space, key: &str) -> Result<Option<u64>, StoreError> {
        self.overlay.state.length(space, key)
    }

    fn state_is(
        &mut self,
        space: &Space,
        key: &str,
        expected: Option<&[u8]>,
    ) -> Result<bool, StoreError> {
        self.overlay.state.has(space, key, expected)
    }

    fn set_state(
        &mut self,
        now: Time,
        space: &Space,
        key: &str,
        value: Option<&[u8]>,
    ) -> Result<(), StoreError> {
        self.overlay.state.set(now, space, key, value);
        Ok(())
    }

    fn set_state_usage(&mut self, space: &Space, usage: Usage) -> Result<(), StoreError> {
        self.overlay.state.set_usage(space, usage)
    }
}
