//! The rows of the state that handlers keep. A batch locks the spaces that it changes, in order, before it reads what
//! their keys have.

use std::collections::{BTreeMap, BTreeSet};

use host_core::state::{Space, StateKey, Usage};
use host_core::time::Time;
use host_engine::{Command, StoreError};
use tokio_postgres::Row;

use super::client::{Client, rows};
use super::pipeline::{Pipeline, values};
use super::trouble::{Trouble, damaged, unreadable};

/// A key in its space.
type Key = (Space, String);

/// The state that a batch names, and whether it compares values.
#[derive(Default)]
pub(super) struct NamedState {
    keys: BTreeMap<Key, bool>,
}

impl NamedState {
    pub(super) fn add(&mut self, command: &Command) {
        for writes in command.state_writes() {
            for write in &writes.writes {
                let key = (writes.space.clone(), write.key.clone());
                *self.keys.entry(key).or_default() |= write.expected.is_some();
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Adds the statements that lock the spaces and read the keys.
    pub(super) async fn lock(&self, pipeline: &mut Pipeline<'_>) -> Result<(), Trouble> {
        let spaces: BTreeSet<&Space> = self.keys.keys().map(|(space, _)| space).collect();
        let spaces: Vec<String> = spaces.into_iter().map(Space::to_string).collect();
        // A space without a row gets one, so that hosts that want the same new one take turns.
        let sql = "INSERT INTO host_state_spaces (space, keys, bytes) \
                   SELECT space, 0, 0 FROM unnest($1::text[]) AS asked (space) ORDER BY space \
                   ON CONFLICT DO NOTHING";
        let values = values![spaces.clone()];
        pipeline.add("make spaces of state", sql, values).await?;
        let sql = "SELECT space, keys, bytes FROM host_state_spaces WHERE space = ANY($1) \
                   ORDER BY space FOR UPDATE";
        let values = values![spaces];
        pipeline.add("lock spaces of state", sql, values).await?;
        let of = |part: fn(&Key) -> String| self.keys.keys().map(part).collect::<Vec<_>>();
        let (spaces, keys) = (
            of(|(space, _)| space.to_string()),
            of(|(_, key)| key.clone()),
        );
        let compared: Vec<bool> = self.keys.values().copied().collect();
        let sql = "SELECT space, key, octet_length(value)::bigint, \
                   CASE WHEN compared THEN value END FROM host_state JOIN \
                   unnest($1::text[], $2::text[], $3::boolean[]) AS asked (space, key, compared) \
                   USING (space, key)";
        let values = values![spaces, keys, compared];
        pipeline.add("read state to change", sql, values).await
    }

    /// Takes the answers to [`NamedState::lock`].
    pub(super) fn take(
        &self,
        answers: &mut impl Iterator<Item = Vec<Row>>,
    ) -> Result<HeldState, StoreError> {
        let mut held = HeldState::default();
        for row in answers.nth(1).unwrap_or_default() {
            let (space, usage) = usage_of(&row)?;
            held.usages.insert(space, (usage, false));
        }
        for key in self.keys.keys() {
            held.values.insert(key.clone(), StateValue::default());
        }
        for row in answers.next().unwrap_or_default() {
            let held = held
                .values
                .entry((space_of(&row)?, row.get(1)))
                .or_default();
            held.length = Some(row.get::<_, i64>(2).unsigned_abs());
            held.value = row.get(3);
        }
        Ok(held)
    }
}

/// The state that a batch has read and changed.
#[derive(Default)]
pub(super) struct HeldState {
    /// Those that have changed are marked.
    usages: BTreeMap<Space, (Usage, bool)>,
    values: BTreeMap<Key, StateValue>,
}

#[derive(Default)]
struct StateValue {
    length: Option<u64>,
    /// If it is compared, or has changed.
    value: Option<Vec<u8>>,
    changed_at: Option<Time>,
}

fn unnamed() -> StoreError {
    damaged(
        "the state of a batch",
        "it was not read before it is changed",
    )
}

impl HeldState {
    pub(super) fn usage(&self, space: &Space) -> Result<Usage, StoreError> {
        let held = self.usages.get(space).ok_or_else(unnamed)?;
        Ok(held.0)
    }

    pub(super) fn set_usage(&mut self, space: &Space, usage: Usage) -> Result<(), StoreError> {
        let held = self.usages.get_mut(space).ok_or_else(unnamed)?;
        *held = (usage, true);
        Ok(())
    }

    fn get(&self, space: &Space, key: &str) -> Result<&StateValue, StoreError> {
        let key = (space.clone(), key.to_owned());
        self.values.get(&key).ok_or_else(unnamed)
    }

    pub(super) fn length(&self, space: &Space, key: &str) -> Result<Option<u64>, StoreError> {
        Ok(self.get(space, key)?.length)
    }

    pub(super) fn has(
        &self,
        space: &Space,
        key: &str,
        expected: Option<&[u8]>,
    ) -> Result<bool, StoreError> {
        Ok(self.get(space, key)?.value.as_deref() == expected)
    }

    pub(super) fn set(&mut self, now: Time, space: &Space, key: &str, value: Option<&[u8]>) {
        let held = StateValue {
            length: value.map(|value| value.len() as u64),
            value: value.map(<[u8]>::to_vec),
            changed_at: Some(now),
        };
        self.values.insert((space.clone(), key.to_owned()), held);
    }

    /// Adds the statements that write what has changed. The row of a space stays when its last key is gone.
    pub(super) async fn flush(&mut self, pipeline: &mut Pipeline<'_>) -> Result<(), Trouble> {
        let (mut set, mut removed) = ((vec![], vec![], vec![], vec![]), (vec![], vec![]));
        for ((space, key), held) in &mut self.values {
            let Some(at) = held.changed_at.take() else {
                continue;
            };
            let place = (space.to_string(), key.clone());
            if let Some(value) = &held.value {
                set.0.push(place.0);
                set.1.push(place.1);
                set.2.push(value.clone());
                set.3.push(at.0);
            } else {
                removed.0.push(place.0);
                removed.1.push(place.1);
            }
        }
        if !set.0.is_empty() {
            let sql = "INSERT INTO host_state (space, key, value, at) \
                       SELECT * FROM unnest($1::text[], $2::text[], $3::bytea[], $4::bigint[]) \
                       ON CONFLICT (space, key) DO UPDATE SET value = EXCLUDED.value, at = EXCLUDED.at";
            let values = values![set.0, set.1, set.2, set.3];
            pipeline.add("write state", sql, values).await?;
        }
        if !removed.0.is_empty() {
            let sql = "DELETE FROM host_state WHERE (space, key) IN \
                       (SELECT * FROM unnest($1::text[], $2::text[]))";
            let values = values![removed.0, removed.1];
            pipeline.add("remove state", sql, values).await?;
        }
        let mut changed = (vec![], vec![], vec![]);
        for (space, (usage, is_changed)) in &mut self.usages {
            if std::mem::take(is_changed) {
                changed.0.push(space.to_string());
                changed.1.push(usage.keys.cast_signed());
                changed.2.push(usage.bytes.cast_signed());
            }
        }
        if !changed.0.is_empty() {
            let sql = "UPDATE host_state_spaces AS old SET keys = new.keys, bytes = new.bytes \
                       FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS new (space, keys, bytes) \
                       WHERE old.space = new.space";
            let values = values![changed.0, changed.1, changed.2];
            pipeline
                .add("write the sizes of spaces", sql, values)
                .await?;
        }
        Ok(())
    }
}

fn space_of(row: &Row) -> Result<Space, StoreError> {
    let text: &str = row.get(0);
    text.parse()
        .map_err(|error| unreadable(format!("the space {text} of state"), &error))
}

fn usage_of(row: &Row) -> Result<(Space, Usage), StoreError> {
    let number = |column| row.get::<_, i64>(column).unsigned_abs();
    let (keys, bytes) = (number(1), number(2));
    Ok((space_of(row)?, Usage { keys, bytes }))
}

/// Returns the keys of a space from `from` on, or after it, in order.
pub(super) async fn keys(
    client: &Client,
    space: &Space,
    (from, is_after): (&str, bool),
    limit: u32,
) -> Result<Vec<StateKey>, StoreError> {
    let sql = "SELECT key, octet_length(value)::bigint, at FROM host_state \
               WHERE space = $1 AND key >= $2 AND (key > $2 OR NOT $3) ORDER BY key LIMIT $4";
    let (space, limit) = (space.to_string(), i64::from(limit));
    let found = rows(
        client,
        "list state",
        sql,
        &[&space, &from, &is_after, &limit],
    )
    .await?;
    let key = |row: &Row| StateKey {
        key: row.get(0),
        bytes: row.get::<_, i64>(1).unsigned_abs(),
        at: Time(row.get(2)),
    };
    Ok(found.iter().map(key).collect())
}
