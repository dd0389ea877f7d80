//! Applies the commands of the audit, and records what becomes of others.

use super::tables::AUDIT;
use super::{AddNote, DONE, Entry, ForgetAudit, Note, Record};
use crate::table::Range;
use crate::{Batch, Command, Reply, Rows, Stop, StoreError};

/// How many old entries of the audit one command forgets at most.
const FORGOTTEN_MAX: u32 = 1_000;

impl<R: Rows> Batch<'_, R> {
    pub(super) fn add_note(&mut self, add: &AddNote) -> Result<(), Stop> {
        Ok(self.record_note(&add.note, &add.outcome)?)
    }

    /// Runs a command and records what became of it, in the same transaction.
    pub(crate) fn noted(&mut self, command: &Command, note: &Note) -> Result<Reply, Stop> {
        let answer = command.carry_out(self);
        match &answer {
            Ok(_) => self.record_note(note, DONE)?,
            Err(Stop::Rejected(rejection)) => self.record_note(note, &rejection.to_string())?,
            Err(Stop::Failed(_)) => {}
        }
        answer
    }

    fn record_note(&mut self, note: &Note, outcome: &str) -> Result<(), StoreError> {
        let record = Record::new(note, self.now, outcome);
        let text = serde_json::to_string(&record).map_err(|error| StoreError::Damaged {
            what: "an entry of the audit to write".to_owned(),
            message: error.to_string(),
        })?;
        self.rows.append_audit(self.now, text)
    }

    /// Forgets the oldest entries before a time, but never the last.
    pub(super) fn forget_audit(&mut self, forget: &ForgetAudit) -> Result<(), Stop> {
        let range = Range::all().first(FORGOTTEN_MAX + 1);
        let mut oldest: Vec<Entry> = self.rows.list(range)?;
        oldest.pop();
        let old = oldest.iter().take_while(|entry| entry.at < forget.before);
        if let Some(last) = old.last() {
            let range = Range::all().up_to(last.number);
            // Another host may have forgotten them.
            if self.rows.delete_rows(&AUDIT, range)? > 0 {
                let note = Note::forgotten((last.number, last.hash));
                self.record_note(&note, DONE)?;
            }
        }
        Ok(())
    }
}
