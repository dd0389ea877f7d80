//! The state that handlers keep, and how much each space has.

use host_core::state::{Space, SpaceUsage, StateValue, Usage};

use crate::StoreError;
use crate::table::{Fields, Marked, Record, Row, Table, row, table};

/// A key of state with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateEntry {
    pub space: Space,
    pub key: String,
    pub value: StateValue,
}

/// A space is `handler:NAME` or `shared:NAME`.
pub static STATE: Table = table!(
    "state", "value of state", "state", 2,
    [space: Text, key: Text, at: Int, value: Bytes]
);

impl Record for StateEntry {
    const TABLE: &'static Table = &STATE;
    type Key<'k> = (&'k Space, &'k str);

    fn key((space, key): (&Space, &str)) -> Row {
        row![space, key]
    }

    fn to_row(&self) -> Result<Row, StoreError> {
        let StateValue { value, at } = &self.value;
        Ok(row![&self.space, self.key.as_str(), *at, &value[..]])
    }

    fn from_row(row: Row) -> Result<Self, StoreError> {
        let mut fields = Fields::new(&STATE, row);
        let (space, key, at) = (fields.parse()?, fields.text()?, fields.time()?);
        let value = fields.bytes()?;
        Ok(Self {
            space,
            key,
            value: StateValue { value, at },
        })
    }
}

/// `bytes` are those of keys and values, and 64 for each key. Spaces with keys are marked.
pub static SPACES: Table = table!(
    "state_spaces", "size of state", "sizes of state", 1,
    [space: Text, keys: Int, bytes: Int]
)
.marked(Marked::Positive(1));

impl Record for SpaceUsage {
    const TABLE: &'static Table = &SPACES;
    type Key<'k> = &'k Space;

    fn key(space: &Space) -> Row {
        row![space]
    }

    fn to_row(&self) -> Result<Row, StoreError> {
        let Usage { keys, bytes } = self.usage;
        Ok(row![&self.space, keys, bytes])
    }

    fn from_row(row: Row) -> Result<Self, StoreError> {
        let mut fields = Fields::new(&SPACES, row);
        let (space, keys, bytes) = (fields.parse()?, fields.number()?, fields.number()?);
        Ok(Self {
            space,
            usage: Usage { keys, bytes },
        })
    }
}
