//! The commands about the audit.

use host_core::time::Time;

use super::Note;
use crate::{Ask, commands};

/// Record something in the audit that no command did.
#[derive(Clone, Debug, PartialEq)]
pub struct AddNote {
    pub note: Box<Note>,
    pub outcome: String,
}

/// Forget entries of the audit before a time, some of the oldest. The last stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgetAudit {
    pub before: Time,
}

commands! {
    Audit {
        AddNote(AddNote) "note" -> (), add_note, |_| 0, "one entry";
        ForgetAudit(ForgetAudit) "forget_audit" -> (), forget_audit, |_| 0, "a number of entries";
    }
}

/// A command with a note for the audit: who requested it. Its reply is that of the command.
#[derive(Clone, Debug, PartialEq)]
pub struct Noted<A> {
    pub command: A,
    pub note: Box<Note>,
}

impl<A: Ask> From<Noted<A>> for crate::Command {
    fn from(Noted { command, note }: Noted<A>) -> Self {
        Self::Noted {
            command: Box::new(command.into()),
            note,
        }
    }
}

impl<A: Ask> Ask for Noted<A> {
    type Reply = A::Reply;
}
