//! Changes the state that handlers keep.

use host_core::command::{Reply, SetState, state};
use host_core::rejection::StateRefusal;
use host_core::state::{Space, StateWrites, Usage};
use host_core::time::Time;

use super::{Batch, Rows, Stop};
use crate::error::StoreError;

/// The rows of the state that handlers keep.
pub trait StateRows {
    /// Returns how much a space of state has.
    fn state_usage(&mut self, space: &Space) -> Result<Usage, StoreError>;
    /// Returns the length of a value of state, in bytes.
    fn state_length(&mut self, space: &Space, key: &str) -> Result<Option<u64>, StoreError>;
    /// Returns whether a key of state has this value, or none.
    fn state_is(
        &mut self,
        space: &Space,
        key: &str,
        expected: Option<&[u8]>,
    ) -> Result<bool, StoreError>;
    /// Writes or removes a key of state. Its space's usage follows.
    fn set_state(
        &mut self,
        now: Time,
        space: &Space,
        key: &str,
        value: Option<&[u8]>,
    ) -> Result<(), StoreError>;
    fn set_state_usage(&mut self, space: &Space, usage: Usage) -> Result<(), StoreError>;
}

impl<R: Rows> Batch<'_, R> {
    pub(super) fn state_command(&mut self, command: &state::Command) -> Result<Reply, Stop> {
        match command {
            state::Command::SetState(set) => self.carry_out(set, Self::change_state),
        }
    }

    /// Makes changes, all or none.
    fn change_state(&mut self, SetState(writes): &SetState) -> Result<(), Stop> {
        self.check_state(writes)?;
        self.set_state(writes)
    }

    /// Refuses changes that do not fit what is stored. Changes nothing.
    pub(super) fn check_state(&mut self, asked: &StateWrites) -> Result<(), Stop> {
        let StateWrites {
            space,
            quota_bytes,
            writes,
        } = asked;
        let before = self.rows.state_usage(space)?;
        let mut after = before;
        for write in writes {
            if let Some(expected) = &write.expected
                && !self.rows.state_is(space, &write.key, expected.as_deref())?
            {
                return Err(StateRefusal::Changed {
                    space: space.clone(),
                    key: write.key.clone(),
                }
                .into());
            }
            let length = self.rows.state_length(space, &write.key)?;
            let new_length = write.value.as_ref().map(|value| value.len() as u64);
            after = after.changed(&write.key, length, new_length);
        }
        if after.bytes > before.bytes && after.bytes > *quota_bytes {
            return Err(StateRefusal::Full {
                space: space.clone(),
                bytes: after.bytes,
                quota_bytes: *quota_bytes,
            }
            .into());
        }
        Ok(())
    }

    /// Makes changes that were checked.
    pub(super) fn set_state(&mut self, asked: &StateWrites) -> Result<(), Stop> {
        let StateWrites { space, writes, .. } = asked;
        let before = self.rows.state_usage(space)?;
        let mut after = before;
        for write in writes {
            let length = self.rows.state_length(space, &write.key)?;
            let new_length = write.value.as_ref().map(|value| value.len() as u64);
            if length.is_some() || new_length.is_some() {
                after = after.changed(&write.key, length, new_length);
                let value = write.value.as_deref();
                self.rows.set_state(self.now, space, &write.key, value)?;
            }
        }
        if after != before {
            self.rows.set_state_usage(space, after)?;
        }
        Ok(())
    }
}
