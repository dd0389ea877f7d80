//! Tokens, the jobs that principals may have, and the audit of commands.

use std::collections::BTreeMap;

use host_core::access::token::{TOKENS_MAX, Token, TokenId};
use host_core::audit::{DONE, Link, Note, Record};
use host_core::command::{
    BeginSession, Command, EndSession, ForgetAudit, NewJob, PutToken, Reply, RevokeToken,
    UseTokens, audit, token as tokens,
};
use host_core::job::Lifecycle;
use host_core::rejection::TokenRefusal;
use host_core::time::Time;

use super::{Batch, Rows, Stop};
use crate::error::StoreError;

/// How many old entries of the audit one command forgets at most.
const FORGOTTEN_MAX: u32 = 1_000;

/// The rows of tokens, quotas and the audit.
pub trait AccessRows {
    fn token(&mut self, id: &TokenId) -> Result<Option<Token>, StoreError>;
    fn count_tokens(&mut self) -> Result<u64, StoreError>;
    /// Adds a token, or replaces the one with its id.
    fn put_token(&mut self, token: &Token) -> Result<(), StoreError>;
    fn remove_token(&mut self, id: &TokenId) -> Result<(), StoreError>;
    /// Records when a token was used, unless it was used later or is gone.
    fn use_token(&mut self, id: &TokenId, at: Time) -> Result<(), StoreError>;
    /// Appends an entry to the audit: it gets the next number, and the hash of the one before.
    fn append_audit(&mut self, at: Time, record: String) -> Result<(), StoreError>;
    /// Forgets at most `limit` of the oldest entries before a time, but never the last. Returns the number and hash of
    /// the newest that it has forgotten.
    fn forget_audit(&mut self, before: Time, limit: u32) -> Result<Option<Link>, StoreError>;
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
        let known = self.rows.token(&token.id)?;
        if !*is_new && known.is_none() {
            return Err(TokenRefusal::Unknown(token.id.clone()).into());
        }
        if known.is_none() && self.rows.count_tokens()? >= TOKENS_MAX {
            return Err(TokenRefusal::TooMany { limit: TOKENS_MAX }.into());
        }
        self.rows.put_token(token)?;
        Ok(())
    }

    fn revoke_token(&mut self, RevokeToken { token: id }: &RevokeToken) -> Result<(), Stop> {
        if self.rows.token(id)?.is_none() {
            return Err(TokenRefusal::Unknown(id.clone()).into());
        }
        self.rows.remove_token(id)?;
        Ok(())
    }

    fn begin_session(&mut self, BeginSession(new): &BeginSession) -> Result<(), Stop> {
        let unknown = || TokenRefusal::Unknown(new.token.clone());
        let mut token = self.rows.token(&new.token)?.ok_or_else(unknown)?;
        if !token.begin_session(new, self.now) {
            return Err(unknown().into());
        }
        self.rows.put_token(&token)?;
        Ok(())
    }

    fn end_session(&mut self, end: &EndSession) -> Result<(), Stop> {
        if let Some(mut token) = self.rows.token(&end.token)? {
            let sessions = &mut token.sessions;
            sessions.retain(|(hash, _)| !hash.matches(&end.session));
            self.rows.put_token(&token)?;
        }
        Ok(())
    }

    fn use_tokens(&mut self, UseTokens { used }: &UseTokens) -> Result<(), Stop> {
        for (id, at) in used {
            self.rows.use_token(id, *at)?;
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

    fn forget_audit(&mut self, forget: &ForgetAudit) -> Result<(), Stop> {
        if let Some(last) = self.rows.forget_audit(forget.before, FORGOTTEN_MAX)? {
            self.record_note(&Note::forgotten(last), DONE)?;
        }
        Ok(())
    }
}
