//! Schedules and their firings.

use host_core::name::Name;

use super::{Firing, KeptSchedule, Schedule};
use crate::table::{Fields, Marked, Range, Record, Row, Table, json, row, table};
use crate::{Reader, StoreError};

/// `body` is the schedule as JSON, `progress` what has become of it. It is due when it fires next. Those with nominal times
/// that wait for jobs to end are marked.
pub static SCHEDULES: Table = table!(
    "schedules", "schedule", "schedules", 1,
    [name: Text, body: Json, progress: Json, fires_at: Int, holds: Flag]
)
.timed(3)
.marked(Marked::Flag(4, true));

impl Record for KeptSchedule {
    const TABLE: &'static Table = &SCHEDULES;
    type Key<'k> = &'k Name;

    fn key(name: &Name) -> Row {
        row![name]
    }

    fn to_row(&self) -> Result<Row, StoreError> {
        let body = json(&SCHEDULES, &self.schedule)?;
        let progress = json(&SCHEDULES, &self.progress)?;
        let name = &self.schedule.name;
        Ok(row![name, body, progress, self.fires_at(), self.holds()])
    }

    fn from_row(row: Row) -> Result<Self, StoreError> {
        let mut fields = Fields::new(&SCHEDULES, row);
        let name: Name = fields.parse()?;
        let schedule: Schedule = fields.json()?;
        if schedule.name != name {
            return Err(fields.unreadable(&"it has another name"));
        }
        let progress = fields.json()?;
        Ok(Self { schedule, progress })
    }
}

/// A firing, with its place among those of its schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberedFiring {
    pub schedule: Name,
    pub number: u64,
    pub firing: Firing,
}

/// The latest firings of each schedule.
pub static FIRINGS: Table = table!(
    "firings", "firing of schedule", "firings of schedules", 2,
    [schedule: Text, number: Int, body: Json]
);

impl Record for NumberedFiring {
    const TABLE: &'static Table = &FIRINGS;
    type Key<'k> = (&'k Name, u64);

    fn key((schedule, number): (&Name, u64)) -> Row {
        row![schedule, number]
    }

    fn to_row(&self) -> Result<Row, StoreError> {
        let body = json(&FIRINGS, &self.firing)?;
        Ok(row![&self.schedule, self.number, body])
    }

    fn from_row(row: Row) -> Result<Self, StoreError> {
        let mut fields = Fields::new(&FIRINGS, row);
        Ok(Self {
            schedule: fields.parse()?,
            number: fields.number()?,
            firing: fields.json()?,
        })
    }
}

/// Reads the firings of a schedule that are kept, newest first.
pub fn read_firings(reader: &dyn Reader, schedule: &Name) -> Result<Vec<Firing>, StoreError> {
    let of_schedule = Range::of(KeptSchedule::key(schedule)).backwards();
    let firings: Vec<NumberedFiring> = reader.list(of_schedule)?;
    Ok(firings.into_iter().map(|it| it.firing).collect())
}
