//! Which step may follow which.

use host_core::step::{JOURNAL_BYTES_MAX, STEP_BYTES_MAX, STEPS_MAX};
use host_core::time::Time;

use super::{CommitStep, Step, StepRefusal};

impl CommitStep {
    /// Returns the row of this step behind the step `before` it and in place of `kept`, or why it does not fit the journal.
    pub(super) fn enter(
        &self,
        now: Time,
        before: Option<&Step>,
        kept: Option<&Step>,
    ) -> Result<Step, StepRefusal> {
        let Self {
            job, number, name, ..
        } = self;
        if *number >= STEPS_MAX {
            return Err(StepRefusal::TooMany { limit: STEPS_MAX });
        }
        let follows = match before {
            Some(before) => before.state.is_final(),
            None => *number == 0,
        };
        let continues = kept.is_none_or(|kept| !kept.state.is_final() && kept.name == *name);
        if !follows || !continues {
            return Err(StepRefusal::Diverged {
                name: name.clone(),
                number: *number,
            });
        }
        let bytes = self.state.value().as_str().len();
        if bytes > STEP_BYTES_MAX {
            return Err(StepRefusal::TooLarge {
                name: name.clone(),
                bytes,
                bytes_max: STEP_BYTES_MAX,
            });
        }
        let earlier = before.map_or(0, |before| before.journal_bytes);
        let journal_bytes = earlier + (name.len() + bytes) as u64;
        if journal_bytes > JOURNAL_BYTES_MAX {
            return Err(StepRefusal::Full {
                bytes: journal_bytes,
                bytes_max: JOURNAL_BYTES_MAX,
            });
        }
        Ok(Step {
            job: *job,
            number: *number,
            name: name.clone(),
            state: self.state.clone(),
            at: now,
            journal_bytes,
        })
    }
}
