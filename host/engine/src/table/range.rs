//! Which rows of a table, and in which order.

use std::cmp::Ordering;

use host_core::time::Time;

use super::{Marked, Row, Table, Value};

/// Rows of a table, in the order of the key.
#[derive(Clone, Debug, Default)]
pub struct Range {
    /// The first columns of the key.
    pub prefix: Row,
    /// Only behind this value of the next column of the key, in the order of the range.
    pub after: Option<Value>,
    /// Only from this value of the next column of the key on.
    pub from: Option<Value>,
    /// Only up to this value of the next column of the key.
    pub up_to: Option<Value>,
    /// Only with a time until then, in the order of their times.
    pub due: Option<Time>,
    /// Only with a time from then on.
    pub since: Option<Time>,
    pub is_marked: bool,
    pub is_backwards: bool,
    pub limit: Option<u32>,
}

impl Range {
    pub fn all() -> Self {
        Self::default()
    }

    /// Returns the rows whose key begins with these values.
    pub fn of(prefix: impl Into<Row>) -> Self {
        Self {
            prefix: prefix.into(),
            ..Self::default()
        }
    }

    /// Only those behind a value of the key.
    #[must_use]
    pub fn after(mut self, key: impl Into<Value>) -> Self {
        self.after = Some(key.into());
        self
    }

    /// Only those from a value of the key on.
    #[must_use]
    pub fn from(mut self, key: impl Into<Value>) -> Self {
        self.from = Some(key.into());
        self
    }

    /// Only those up to a value of the key, with this one.
    #[must_use]
    pub fn up_to(mut self, key: impl Into<Value>) -> Self {
        self.up_to = Some(key.into());
        self
    }

    /// Only those that are due, the earliest first.
    #[must_use]
    pub const fn due(mut self, until: Time) -> Self {
        self.due = Some(until);
        self
    }

    /// Only those of a time and later.
    #[must_use]
    pub const fn since(mut self, time: Time) -> Self {
        self.since = Some(time);
        self
    }

    /// Only those that are marked.
    #[must_use]
    pub const fn marked(mut self) -> Self {
        self.is_marked = true;
        self
    }

    /// Begins with the last key.
    #[must_use]
    pub const fn backwards(mut self) -> Self {
        self.is_backwards = true;
        self
    }

    /// Only so many.
    #[must_use]
    pub const fn first(mut self, limit: u32) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Returns whether a row belongs to the range, apart from its limit.
    pub fn has(&self, table: &Table, row: &[Value]) -> bool {
        let next = row.get(self.prefix.len());
        let behind = if self.is_backwards {
            Ordering::Less
        } else {
            Ordering::Greater
        };
        let is_behind = |after: &Value| next.cmp(&Some(after)) == behind;
        let time = table.time.and_then(|column| match row.get(column) {
            Some(Value::Int(time)) => Some(Time(*time)),
            _ => None,
        });
        row.starts_with(&self.prefix)
            && self.after.as_ref().is_none_or(is_behind)
            && next >= self.from.as_ref()
            && (self.up_to.is_none() || next <= self.up_to.as_ref())
            && (self.due.is_none() || time.is_some() && time <= self.due)
            && time >= self.since
            && (!self.is_marked || table.marks(row))
    }

    /// Sorts rows that are in the order of the key as the range has them.
    pub fn sort(&self, table: &Table, rows: &mut [Row]) {
        if self.is_backwards {
            rows.reverse();
        }
        if let (Some(_), Some(column)) = (self.due, table.time) {
            rows.sort_by(|one, other| one.get(column).cmp(&other.get(column)));
        }
    }

    /// Returns how many rows it has at most.
    pub fn most(&self) -> usize {
        self.limit.map_or(usize::MAX, |limit| limit as usize)
    }
}

impl Table {
    /// Returns whether a row is marked.
    fn marks(&self, row: &[Value]) -> bool {
        let number = |column: usize| match row.get(column) {
            Some(Value::Int(number)) => *number,
            _ => 0,
        };
        match self.marked {
            Some(Marked::Flag(column, is_set)) => (number(column) != 0) == is_set,
            Some(Marked::Positive(column)) => number(column) > 0,
            None => true,
        }
    }
}

/// A range of a table.
#[derive(Clone, Debug)]
pub struct Select {
    pub table: &'static Table,
    pub range: Range,
}
