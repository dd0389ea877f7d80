//! The definitions of limits.

use host_core::job::LimitKey;
use host_core::time::Time;

use super::{KeptLimit, KeyUse, Limits};
use crate::table::{Fields, Range, Record, Row, Table, json, row, table};
use crate::{Reader, StoreError};

/// `body` is the limit as JSON. `removed` limits stay until no job waits for them. `cursor` is the key from which on ticks
/// look for jobs that a change of the limit lets pass.
pub static LIMITS: Table = table!(
    "limits", "limit", "limits", 1,
    [number: Int, body: Json, removed: Flag, cursor: Text]
);

impl Record for KeptLimit {
    const TABLE: &'static Table = &LIMITS;
    type Key<'k> = u64;

    fn key(number: u64) -> Row {
        row![number]
    }

    fn to_row(&self) -> Result<Row, StoreError> {
        let body = json(&LIMITS, &self.limit)?;
        let cursor = self.cursor.clone();
        Ok(row![self.number, body, self.is_removed, cursor])
    }

    fn from_row(row: Row) -> Result<Self, StoreError> {
        let mut fields = Fields::new(&LIMITS, row);
        Ok(Self {
            number: fields.number()?,
            limit: fields.json()?,
            is_removed: fields.flag()?,
            cursor: fields.text_if_any()?,
        })
    }
}

/// How much of a key of a limit is used, and when ticks look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptKey {
    pub key: LimitKey,
    pub used: KeyUse,
    pub wake_at: Option<Time>,
}

/// Each engine writes them with statements of its own. Keys that are the same as never used have no row.
pub static LIMIT_KEYS: Table = table!(
    "limit_keys", "key of limit", "keys of limits", 2,
    [
        number: Int, key: Text, reserved: Int, running: Int, waiting: Int, refilled_at_ns: Int, wake_at: Int,
        reserved_units: Int, next_units: Int, cancelling: Int, to_cancel: Int, held_until: Int
    ]
)
.timed(6);

impl Record for KeptKey {
    const TABLE: &'static Table = &LIMIT_KEYS;
    type Key<'k> = &'k LimitKey;

    fn key(key: &LimitKey) -> Row {
        row![key.limit, &*key.key]
    }

    fn to_row(&self) -> Result<Row, StoreError> {
        let mut row = Self::key(&self.key);
        let used = &self.used;
        row.extend(row![
            used.reserved,
            used.running,
            used.waiting,
            used.refilled_at_ns,
            self.wake_at,
            used.reserved_units,
            used.next_units,
            used.cancelling,
            used.to_cancel,
            used.held_until,
        ]);
        Ok(row)
    }

    fn from_row(row: Row) -> Result<Self, StoreError> {
        let mut fields = Fields::new(&LIMIT_KEYS, row);
        let (limit, key) = (fields.number()?, fields.text()?.into());
        let (reserved, running, waiting) = (fields.number()?, fields.number()?, fields.number()?);
        let (refilled_at_ns, wake_at) = (fields.int()?, fields.int_if_any()?.map(Time));
        Ok(Self {
            key: LimitKey { limit, key },
            used: KeyUse {
                reserved,
                running,
                waiting,
                refilled_at_ns,
                reserved_units: fields.number()?,
                next_units: fields.number()?,
                cancelling: fields.number()?,
                to_cancel: fields.number()?,
                held_until: fields.time()?,
            },
            wake_at,
        })
    }
}

/// Reads the limits by number, also removed ones for which jobs still wait.
pub fn read_limits(reader: &dyn Reader) -> Result<Limits, StoreError> {
    let kept: Vec<KeptLimit> = reader.list(Range::all())?;
    Ok(kept.into_iter().collect())
}

/// Reads how much of a key is used.
pub fn read_key_use(reader: &dyn Reader, key: &LimitKey) -> Result<KeyUse, StoreError> {
    let kept: Option<KeptKey> = reader.get(key)?;
    Ok(kept.map(|it| it.used).unwrap_or_default())
}
