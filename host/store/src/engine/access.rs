//! Tokens, the jobs that principals may have, and the audit of commands.

use std::collections::BTreeMap;

use host_core::access::token::{KeptToken, TOKENS_MAX, Token};
use host_core::audit::{DONE, Entry, Note, Record};
use host_core::command::{
    BeginSession, Command, EndSession, ForgetAudit, NewJob, PutToken, Reply, RevokeToken,
    UseTokens, audit, token as tokens,
};
use host_core::job::Lifecycle;
use host_core::rejection::TokenRefusal;
use host_core::time::Time;

use super::{Batch, Rows, Stop, TableRows};
use crate::error::StoreError;
use crate::table::Range;
use crate::tables::audit::AUDIT;
use crate::tables::token::TOKENS;

/// How many old entries of the audit one command forgets at most.
const FORGOTTEN_MAX: u32 = 1_000;

/// What is particular about the rows of tokens, quotas and the audit.
pub trait AccessRows: TableRows {
    /// Makes other nodes read the tokens again.
    fn note_tokens(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
    /// Appends an entry to the audit: it gets the next number, and the hash of the one before.
    fn append_audit(&mut self, at: Time, record: String) -> Result<(), StoreError> {
        let last: Vec<Entry> = self.list(Range::all().backwards().first(1))?;
        let (number, hash) = last.first().map_or((0, [0; 32]), |it| (it.number, it.hash));
        self.put(&Entry::new(number + 1, at, hash, record))
    }
    /// Returns how many jobs of a principal with a limit have not ended.
    fn owned(&mut self, principal: &str) -> Result<u64, StoreError>;
    /// Counts jobs of a principal that have begun or ended.
    fn count_owned(&mut self, principal: &str, step: i64) -> Result<(), StoreError>;
}

impl<R: Rows> Batch<'_, R> {
    /// Checks that the principals of new jobs may have so many more.
    pub(super) fn check_owned<'a>(
        &mut self,
        new: impl Iterator<Item = &'a NewJob>,
    ) -> Result<(), Stop> {
        let mut more: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for new in new {
            if let Some(origin) = &new.payload.origin
                && let Some(limit) = origin.max_waiting
            {
                let (count, most) = more.entry(&origin.principal).or_insert((0, limit));
                *count += 1;
                *most = limit.min(*most);
            }
        }
        for (principal, (count, limit)) in more {
            let jobs = self.rows.owned(principal)?;
            if jobs.saturating_add(count) > limit {
                return Err(TokenRefusal::TooManyJobs { jobs, limit }.into());
            }
        }
        Ok(())
    }

    /// Counts a job that ends, or runs again, for its principal.
    pub(super) fn count_owned(
        &mut self,
        before: &Lifecycle,
        after: &Lifecycle,
    ) -> Result<(), StoreError> {
        let step = match (before.state.is_terminal(), after.state.is_terminal()) {
            (false, true) => -1,
            (true, false) => 1,
            _ => return Ok(()),
        };
        match &after.owner {
            Some(owner) => self.rows.count_owned(owner, step),
            None => Ok(()),
        }
    }

    pub(super) fn token_command(&mut self, command: &tokens::Command) -> Result<Reply, Stop> {
        match command {
            tokens::Command::PutToken(put) => self.carry_out(put, Self::put_token),
            tokens::Command::RevokeToken(revoke) => self.carry_out(revoke, Self::revoke_token),
            tokens::Command::BeginSession(begin) => self.carry_out(begin, Self::begin_session),
            tokens::Command::EndSession(end) => self.carry_out(end, Self::end_session),
            tokens::Command::UseTokens(used) => self.carry_out(used, Self::use_tokens),
        }
    }

    pub(super) fn audit_command(&mut self, command: &audit::Command) -> Result<Reply, Stop> {
        match command {
            audit::Command::AddNote(add) => self.carry_out(add, |it, add| {
                it.record_note(&add.note, &add.outcome).map_err(Stop::from)
            }),
            audit::Command::ForgetAudit(forget) => self.carry_out(forget, Self::forget_audit),
        }
    }

    fn put_token(&mut self, PutToken { token, is_new }: &PutToken) -> Result<(), Stop> {
        let known: Option<KeptToken> = self.rows.get(&token.id)?;
        if !*is_new && known.is_none() {
            return Err(TokenRefusal::Unknown(token.id.clone()).into());
        }
        if known.is_none() && self.rows.count_rows(&TOKENS, Range::all())? >= TOKENS_MAX {
            return Err(TokenRefusal::TooMany { limit: TOKENS_MAX }.into());
        }
        self.write_token(&KeptToken {
            token: Token::clone(token),
            used_at: known.and_then(|it| it.used_at),
        })
    }

    fn write_token(&mut self, kept: &KeptToken) -> Result<(), Stop> {
        self.rows.put(kept)?;
        self.rows.note_tokens()?;
        Ok(())
    }

    fn revoke_token(&mut self, RevokeToken { token: id }: &RevokeToken) -> Result<(), Stop> {
        if self.rows.get::<KeptToken>(id)?.is_none() {
            return Err(TokenRefusal::Unknown(id.clone()).into());
        }
        self.rows.remove::<KeptToken>(id)?;
        self.rows.note_tokens()?;
        Ok(())
    }

    fn begin_session(&mut self, BeginSession(new): &BeginSession) -> Result<(), Stop> {
        let unknown = || TokenRefusal::Unknown(new.token.clone());
        let mut kept: KeptToken = self.rows.get(&new.token)?.ok_or_else(unknown)?;
        if !kept.token.begin_session(new, self.now) {
            return Err(unknown().into());
        }
        self.write_token(&kept)
    }

    fn end_session(&mut self, end: &EndSession) -> Result<(), Stop> {
        let Some(mut kept) = self.rows.get::<KeptToken>(&end.token)? else {
            return Ok(());
        };
        let sessions = &mut kept.token.sessions;
        sessions.retain(|(hash, _)| !hash.matches(&end.session));
        self.write_token(&kept)
    }

    fn use_tokens(&mut self, UseTokens { used }: &UseTokens) -> Result<(), Stop> {
        for (id, at) in used {
            let kept: Option<KeptToken> = self.rows.get(id)?;
            if let Some(mut kept) = kept.filter(|it| it.used_at < Some(*at)) {
                kept.used_at = Some(*at);
                self.rows.put(&kept)?;
            }
        }
        Ok(())
    }

    /// Runs a command and records what became of it, in the same transaction.
    pub(super) fn noted(&mut self, command: &Command, note: &Note) -> Result<Reply, Stop> {
        let answer = self.command(command);
        match &answer {
            Ok(_) => self.record_note(note, DONE)?,
            Err(Stop::Rejected(rejection)) => self.record_note(note, &rejection.to_string())?,
            Err(Stop::Failed(_)) => {}
        }
        answer
    }

    fn record_note(&mut self, note: &Note, outcome: &str) -> Result<(), StoreError> {
        let record = Record::new(note, self.now, outcome);
        let record = serde_json::to_string(&record).map_err(|error| StoreError::Damaged {
            what: "an entry of the audit to write".to_owned(),
            message: error.to_string(),
        })?;
        self.rows.append_audit(self.now, record)
    }

    /// Forgets the oldest entries before a time, but never the last.
    fn forget_audit(&mut self, forget: &ForgetAudit) -> Result<(), Stop> {
        let oldest = Range::all().first(FORGOTTEN_MAX + 1);
        let mut oldest: Vec<Entry> = self.rows.list(oldest)?;
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
