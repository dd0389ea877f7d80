//! The journals of jobs.

use host_core::id::JobId;
use host_core::json::JsonText;
use host_core::step::StepState;

use super::{Step, StepKey};
use crate::StoreError;
use crate::table::{Fields, Record, Row, Table, row, table};

pub static STEPS: Table = table!(
    "steps", "step of job", "steps", 2,
    [job: Id, number: Int, name: Text, state: Text, value: Text, at: Int, journal_bytes: Int]
);

impl Record for Step {
    const TABLE: &'static Table = &STEPS;
    type Key<'k> = StepKey;

    fn key(StepKey { job, number }: StepKey) -> Row {
        row![job.0, number]
    }

    fn to_row(&self) -> Result<Row, StoreError> {
        Ok(row![
            self.job.0,
            self.number,
            self.name.as_str(),
            self.state.as_str(),
            self.state.value().as_str(),
            self.at,
            self.journal_bytes
        ])
    }

    fn from_row(row: Row) -> Result<Self, StoreError> {
        let mut fields = Fields::new(&STEPS, row);
        let (job, number) = (JobId(fields.id()?), fields.number()?);
        let name = fields.text()?;
        let (state, value) = (fields.text()?, JsonText(fields.text()?));
        let state = StepState::from_name(&state, value)
            .ok_or_else(|| fields.unreadable(&format!("{state:?} is no state of a step")))?;
        Ok(Self {
            job,
            number,
            name,
            state,
            at: fields.time()?,
            journal_bytes: fields.number()?,
        })
    }
}
