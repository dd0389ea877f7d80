//! The audit: who changed what, or was not allowed to. Entries form a chain: each has the SHA-256 of the one before.

mod apply;
mod command;
pub mod tables;

use host_core::hex::hex;
use host_core::time::Time;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

pub use self::command::*;

/// The longest text of a field, in bytes. Longer ones are cut.
pub const FIELD_BYTES_MAX: usize = 512;

/// The principal of what the host does by itself.
pub const HOST: &str = "host";

/// What is recorded of a change, or of an attempt to make one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct Note {
    /// The principal; empty for anyone on a host without tokens, and for an unknown one.
    pub principal: String,
    /// The name of the principal's token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_name: Option<String>,
    /// The address that the request came from; `None` on a local socket, and for the host itself.
    pub address: Option<String>,
    /// What was done: a verb of access, or `start`, `backup` and the like for what the host does itself.
    pub verb: String,
    /// What it was done to.
    pub object: String,
    /// The id of the request.
    pub request: Option<String>,
    /// What was asked for beyond verb and object, without secrets and payloads.
    pub detail: Option<String>,
    /// How often it happened, if one entry covers several.
    pub times: u32,
}

impl Note {
    /// Makes a note about something that happened once.
    pub fn new(verb: &str, object: impl Into<String>) -> Self {
        Self {
            verb: verb.to_owned(),
            object: cut(object.into()),
            times: 1,
            ..Self::default()
        }
    }

    /// Makes a note about something that the host did by itself.
    pub fn by_host(verb: &str, object: impl Into<String>) -> Self {
        Self {
            principal: HOST.to_owned(),
            ..Self::new(verb, object)
        }
    }

    /// Makes the note that the entries up to this one are no longer kept.
    pub fn forgotten((number, hash): Link) -> Self {
        Self::by_host("forget", format!("audit entries to {number}")).detail(hex(&hash))
    }

    /// Adds what was asked for beyond verb and object.
    #[must_use]
    pub fn detail(self, detail: impl Into<String>) -> Self {
        Self {
            detail: Some(cut(detail.into())),
            ..self
        }
    }
}

/// Cuts a text to the longest that is kept, at the end of a character.
pub fn cut(mut text: String) -> String {
    if text.len() > FIELD_BYTES_MAX {
        let end = (0..=FIELD_BYTES_MAX)
            .rev()
            .find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or_default());
    }
    text
}

/// What became of it.
pub const DONE: &str = "done";

/// A note with its time and outcome, in the order and form in which it is hashed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Record<'a> {
    /// RFC 3339.
    pub at: String,
    pub principal: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_name: Option<&'a str>,
    pub address: Option<&'a str>,
    pub verb: &'a str,
    pub object: &'a str,
    /// `done`, or why it was refused.
    pub outcome: &'a str,
    pub request: Option<&'a str>,
    pub detail: Option<&'a str>,
    pub times: u32,
}

impl<'a> Record<'a> {
    /// Completes a note.
    pub fn new(note: &'a Note, at: Time, outcome: &'a str) -> Self {
        Self {
            at: at.to_rfc3339(),
            principal: &note.principal,
            token_name: note.token_name.as_deref(),
            address: note.address.as_deref(),
            verb: &note.verb,
            object: &note.object,
            outcome,
            request: note.request.as_deref(),
            detail: note.detail.as_deref(),
            times: note.times,
        }
    }
}

/// One entry, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its place, from 1.
    pub number: u64,
    pub at: Time,
    /// The hash of the entry before it; zeros for the first.
    pub previous: [u8; 32],
    /// The record as JSON, byte for byte as it was hashed.
    pub record: String,
    pub hash: [u8; 32],
}

impl Entry {
    /// Makes the entry that follows another with the hash `previous`.
    pub fn new(number: u64, at: Time, previous: [u8; 32], record: String) -> Self {
        Self {
            hash: hash(&previous, number, &record),
            number,
            at,
            previous,
            record,
        }
    }

    /// Reads the note of which it is the record.
    fn note(&self) -> Option<Note> {
        serde_json::from_str(&self.record).ok()
    }

    /// Returns what is wrong with an entry that should follow `before`. `None` for the first that is kept.
    fn flaw(&self, before: Option<&Self>) -> Option<&'static str> {
        if self.hash != hash(&self.previous, self.number, &self.record) {
            return Some("it was changed: its hash does not match");
        }
        let before = before?;
        if self.number != before.number + 1 {
            return Some("entries before it are missing");
        }
        (self.previous != before.hash).then_some("it does not follow the entry before it")
    }
}

/// The number and the hash of an entry: what the next one follows.
pub type Link = (u64, [u8; 32]);

/// Follows a chain from its oldest entry on, and says what is wrong with it.
#[derive(Debug, Default)]
pub struct Chain {
    last: Option<Entry>,
    /// The last of the entries that were forgotten, until an entry has been seen that says so.
    forgotten: Option<Link>,
}

impl Chain {
    /// Takes the next entry. Returns what is wrong with it.
    pub fn follow(&mut self, entry: Entry) -> Option<&'static str> {
        let flaw = entry.flaw(self.last.as_ref());
        if self.last.is_none() && entry.number > 1 {
            self.forgotten = Some((entry.number - 1, entry.previous));
        }
        if let Some(link) = self.forgotten
            && let Some(note) = entry.note()
            && note == Note::forgotten(link)
        {
            self.forgotten = None;
        }
        self.last = Some(entry);
        flaw
    }

    /// Returns the last entry.
    pub fn last(&self) -> Option<&Entry> {
        self.last.as_ref()
    }

    /// Returns the oldest entry and what is wrong with it, if no entry says that the host forgot those before it. If so,
    /// they were removed from outside.
    pub fn flaw_at_start(&self) -> Option<(u64, &'static str)> {
        let (forgotten, _) = self.forgotten?;
        let flaw = "entries before it are missing, and the host did not forget them";
        Some((forgotten + 1, flaw))
    }
}

/// The SHA-256 of the canonical form: the previous hash in hexadecimal digits, a line break, the number, a line
/// break, and the record.
pub fn hash(previous: &[u8; 32], number: u64, record: &str) -> [u8; 32] {
    let previous = hex(previous);
    Sha256::digest(format!("{previous}\n{number}\n{record}")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain() -> Vec<Entry> {
        let mut previous = [0; 32];
        let entries = (1..=4).map(|number| {
            let record = format!("{{\"n\":{number}}}");
            let entry = Entry::new(number, Time(0), previous, record);
            previous = entry.hash;
            entry
        });
        entries.collect()
    }

    /// Returns the first broken entry, by its number.
    fn broken(entries: &[Entry]) -> Option<u64> {
        let mut chain = Chain::default();
        for entry in entries {
            if chain.follow(entry.clone()).is_some() {
                return Some(entry.number);
            }
        }
        chain.flaw_at_start().map(|(number, _)| number)
    }

    #[test]
    fn any_change_of_the_chain_is_found_where_it_is() {
        assert_eq!(broken(&chain()), None);
        let mut changed = chain();
        changed[1].record.push(' ');
        assert_eq!(broken(&changed), Some(2));
        let mut gone = chain();
        gone.remove(1);
        assert_eq!(broken(&gone), Some(3));
        let mut swapped = chain();
        swapped.swap(1, 2);
        assert_eq!(broken(&swapped), Some(3));
        let mut forged = chain();
        forged[1] = Entry::new(2, Time(0), forged[0].hash, "{}".to_owned());
        assert_eq!(broken(&forged), Some(3), "what follows gives it away");
    }

    #[test]
    fn the_first_entries_are_gone_only_if_a_later_one_says_so() {
        let mut entries = chain();
        assert_eq!(broken(&entries[2..]), Some(3));
        let says = |number: u64, hash: &[u8; 32]| {
            let note = Note::forgotten((number, *hash));
            serde_json::to_string(&Record::new(&note, Time(0), DONE)).unwrap()
        };
        let [second, last] = [entries[1].hash, entries[3].hash];
        entries.push(Entry::new(5, Time(0), last, says(2, &second)));
        assert_eq!(broken(&entries[2..]), None);
        assert_eq!(broken(&entries[3..]), Some(4), "one more is gone");
        let other = Entry::new(5, Time(0), last, says(2, &last));
        entries[4] = other;
        assert_eq!(
            broken(&entries[2..]),
            Some(3),
            "another entry was forgotten"
        );
    }

    #[test]
    fn a_long_field_is_cut_at_a_character() {
        let note = Note::new("read", "ü".repeat(FIELD_BYTES_MAX));
        assert_eq!(note.object.len(), FIELD_BYTES_MAX);
        let note = Note::new("read", format!("a{}", "ü".repeat(FIELD_BYTES_MAX)));
        assert_eq!(note.object.len(), FIELD_BYTES_MAX - 1);
    }
}
