//! Changes the state that handlers keep.

use host_core::state::{Space, SpaceUsage, StateWrites, Usage};
use host_core::time::Time;

use super::tables::{STATE, StateEntry};
use super::{SetState, StateRefusal};
use crate::table::{Record as _, TableRows, Value};
use crate::{Batch, Rows, Stop, StoreError};

/// The rows of the state that handlers keep.
pub trait StateRows: TableRows {
    /// Returns how much a space of state has.
    fn state_usage(&mut self, space: &Space) -> Result<Usage, StoreError> {
        let kept: Option<SpaceUsage> = self.get(space)?;
        Ok(kept.map(|it| it.usage).unwrap_or_default())
    }
    /// Returns the length of a value of state, in bytes, without reading the value.
    fn state_length(&mut self, space: &Space, key: &str) -> Result<Option<u64>, StoreError>;
    /// Returns whether a key of state has this value, or none. A value of another length is not read.
    fn state_is(
        &mut self,
        space: &Space,
        key: &str,
        expected: Option<&[u8]>,
    ) -> Result<bool, StoreError> {
        let length = self.state_length(space, key)?;
        if length != expected.map(|value| value.len() as u64) || expected.is_none() {
            return Ok(length.is_none() && expected.is_none());
        }
        let kept: Option<StateEntry> = self.get((space, key))?;
        Ok(kept.is_some_and(|it| Some(&*it.value.value) == expected))
    }
    /// Writes or removes a key of state. Its space's usage follows.
    fn set_state(
        &mut self,
        now: Time,
        space: &Space,
        key: &str,
        value: Option<&[u8]>,
    ) -> Result<(), StoreError> {
        let mut row = StateEntry::key((space, key));
        let Some(value) = value else {
            return self.delete_row(&STATE, row);
        };
        row.extend([now.into(), Value::from(value)]);
        self.put_row(&STATE, row)
    }
    /// Keeps how much a space has. One without keys is forgotten.
    fn set_state_usage(&mut self, space: &Space, usage: Usage) -> Result<(), StoreError> {
        if usage.keys == 0 {
            return self.remove::<SpaceUsage>(space);
        }
        let space = space.clone();
        self.put(&SpaceUsage { space, usage })
    }
}

impl<R: Rows> Batch<'_, R> {
    /// Makes changes, all or none.
    pub(super) fn change_state(&mut self, SetState(writes): &SetState) -> Result<(), Stop> {
        self.check_state(writes)?;
        self.set_state(writes)
    }

    /// Refuses changes that do not fit what is stored. Changes nothing.
    pub(crate) fn check_state(&mut self, asked: &StateWrites) -> Result<(), Stop> {
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
    pub(crate) fn set_state(&mut self, asked: &StateWrites) -> Result<(), Stop> {
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
