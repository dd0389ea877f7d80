//! Tokens.

use host_core::time::Time;

use super::{KeptToken, TokenId};
use crate::StoreError;
use crate::table::{Fields, Record, Row, Table, json, row, table};

/// `body` is the token as JSON, with the SHA-256 of its text.
pub static TOKENS: Table =
    table!("tokens", "token", "tokens", 1, [id: Text, body: Json, used_at: Int]);

impl Record for KeptToken {
    const TABLE: &'static Table = &TOKENS;
    type Key<'k> = &'k TokenId;

    fn key(id: &TokenId) -> Row {
        row![id.as_str()]
    }

    fn to_row(&self) -> Result<Row, StoreError> {
        let body = json(&TOKENS, &self.token)?;
        Ok(row![self.token.id.as_str(), body, self.used_at])
    }

    fn from_row(row: Row) -> Result<Self, StoreError> {
        let mut fields = Fields::new(&TOKENS, row);
        fields.skip(1);
        Ok(Self {
            token: fields.json()?,
            used_at: fields.int_if_any()?.map(Time),
        })
    }
}
