//! Counts what is left once records are set aside: the places of limits, and the numbers of principals and of batches.

use std::collections::{BTreeMap, BTreeSet};

use host_core::id::{BatchId, JobId};
use host_core::job::LimitKey;
use host_core::time::Time;
use host_engine::batch::BatchProgress;
use serde_json::json;
use uuid::Uuid;

use super::{Writes, keys};
use crate::finding::Tally;
use crate::judge::judge;
use crate::parts::{PARTS, Row, Value};

/// The columns of a key that are counted, in the order of [`Tally`].
const COUNTED: [usize; 5] = [2, 3, 4, 7, 9];

/// The columns of a key: when it is due, and what is found out anew then.
const WAKE_AT: usize = 6;
const NEXT_UNITS: usize = 8;
const TO_CANCEL: usize = 10;

/// The rows that stay, as far as they were seen. Jobs are seen before what counts them.
#[derive(Default)]
pub(super) struct Rest {
    tally: Tally,
    /// How many jobs of principals with a limit have not ended.
    owned: BTreeMap<String, i64>,
    /// The limits that are in force.
    in_force: BTreeSet<u64>,
}

impl Rest {
    /// Takes a row that stays, and corrects it if it counts jobs.
    pub(super) fn see(&mut self, part: usize, row: &Row, writes: &mut Writes) {
        let right = match (PARTS[part].name, row.as_slice()) {
            ("jobs that have not ended" | "jobs that have ended", _) => {
                self.job(part, row);
                return;
            }
            ("limits", [Value::Int(number), _, Value::Int(0), _]) => {
                self.in_force.insert(number.unsigned_abs());
                return;
            }
            ("numbers of principals", [Value::Text(principal), _]) => {
                owned_row(principal, self.owned.remove(principal).unwrap_or_default())
            }
            ("keys of limits", [Value::Int(number), Value::Text(key), ..]) => {
                Some(self.key(number.unsigned_abs(), key, row))
            }
            (
                "running jobs of limits",
                [
                    Value::Int(number),
                    Value::Text(key),
                    Value::Int(since),
                    Value::Bytes(job),
                ],
            ) => {
                let key = limit_key(number.unsigned_abs(), key);
                self.listed(key, JobId(id(job)), Time(*since))
                    .then(|| row.clone())
            }
            ("batches", [Value::Bytes(batch), _, Value::Text(progress), ..]) => {
                Some(self.batch(BatchId(id(batch)), progress, row))
            }
            _ => return,
        };
        if right.as_ref() != Some(row) {
            writes.deletes.push((part, keys(part, row)));
            writes.inserts.extend(right.map(|right| (part, right)));
        }
    }

    fn job(&mut self, part: usize, row: &Row) {
        if let Ok(Some(job)) = judge(part, row) {
            self.tally.add(&job);
            if let Some(owner) = job.owner.filter(|_| !job.state.is_terminal()) {
                *self.owned.entry(owner.into()).or_default() += 1;
            }
        }
    }

    /// Returns whether a job is rightly listed as running with a key.
    fn listed(&mut self, key: LimitKey, job: JobId, since: Time) -> bool {
        let job = (key, job);
        let is_right = self.tally.listed.get(&job) == Some(&since);
        if is_right {
            self.tally.listed.remove(&job);
        }
        is_right
    }

    /// Returns the right row of a key.
    fn key(&mut self, number: u64, key: &str, row: &Row) -> Row {
        let there = self
            .tally
            .keys
            .remove(&limit_key(number, key))
            .unwrap_or_default();
        let kept = COUNTED.map(|column| match &row[column] {
            Value::Int(count) => count.unsigned_abs(),
            _ => 0,
        });
        // Places of a limit that was removed are not counted.
        let right = if self.in_force.contains(&number) {
            there
        } else {
            [kept[0], kept[1], there[2], kept[3], kept[4]]
        };
        if right == kept {
            row.clone()
        } else {
            key_row(row.clone(), right)
        }
    }

    /// Returns the right row of a batch: jobs that are missing count as cancelled, and the next tick looks at it.
    fn batch(&mut self, batch: BatchId, progress: &str, row: &Row) -> Row {
        let there = self.tally.batches.remove(&batch).unwrap_or_default();
        let mut row = row.clone();
        let Ok(mut progress) = serde_json::from_str::<BatchProgress>(progress) else {
            return row;
        };
        let (kept, there) = (progress.counts.not_ended(), there.not_ended());
        if kept != there {
            progress.counts.cancelled += kept.saturating_sub(there);
            progress.counts.jobs += there.saturating_sub(kept);
            row[2] = Value::Text(json!(progress).to_string());
            row[4] = Value::Int(0);
        }
        row
    }

    /// Adds the rows that are missing.
    pub(super) fn finish(self, writes: &mut Writes) {
        let part = |name| {
            PARTS
                .iter()
                .position(|part| part.name == name)
                .unwrap_or_default()
        };
        let mut add = |name, row| writes.inserts.push((part(name), row));
        for (principal, jobs) in &self.owned {
            if let Some(row) = owned_row(principal, *jobs) {
                add("numbers of principals", row);
            }
        }
        for (key, counted) in &self.tally.keys {
            let is_in_force = self.in_force.contains(&key.limit);
            let right = if is_in_force {
                *counted
            } else {
                [0, 0, counted[2], 0, 0]
            };
            if right == [0; 5] {
                continue;
            }
            let mut row = vec![Value::Int(0); 12];
            row[0] = Value::Int(key.limit.cast_signed());
            row[1] = Value::Text(key.key.to_string());
            add("keys of limits", key_row(row, right));
        }
        for ((key, job), since) in &self.tally.listed {
            let number = Value::Int(key.limit.cast_signed());
            let name = Value::Text(key.key.to_string());
            let job = Value::Bytes(job.0.as_bytes().to_vec());
            add(
                "running jobs of limits",
                vec![number, name, Value::Int(since.0), job],
            );
        }
    }
}

fn owned_row(principal: &str, jobs: i64) -> Option<Row> {
    (jobs > 0).then(|| vec![Value::Text(principal.to_owned()), Value::Int(jobs)])
}

/// Writes what was counted into the row of a key. The next tick looks at the key.
fn key_row(mut row: Row, counted: [u64; 5]) -> Row {
    for (column, count) in COUNTED.into_iter().zip(counted) {
        row[column] = Value::Int(count.cast_signed());
    }
    for column in [WAKE_AT, NEXT_UNITS, TO_CANCEL] {
        row[column] = Value::Int(0);
    }
    row
}

fn limit_key(limit: u64, key: &str) -> LimitKey {
    LimitKey {
        limit,
        key: key.into(),
    }
}

fn id(bytes: &[u8]) -> Uuid {
    Uuid::from_slice(bytes).unwrap_or_default()
}
