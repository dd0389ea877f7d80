//! Applies the commands about tokens, and counts the jobs that principals may have.

use std::collections::BTreeMap;

use host_core::job::{Lifecycle, NewJob};
use host_core::time::Time;

use super::tables::TOKENS;
use super::{
    BeginSession, EndSession, KeptToken, PutToken, RevokeToken, TOKENS_MAX, Token, TokenRefusal,
    UseTokens,
};
use crate::audit::Entry;
use crate::table::{Range, TableRows};
use crate::{Batch, Rows, Stop, StoreError};

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
    pub(crate) fn check_owned<'a>(
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
    pub(crate) fn count_owned(
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

    pub(super) fn put_token(&mut self, PutToken { token, is_new }: &PutToken) -> Result<(), Stop> {
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

    pub(super) fn revoke_token(
        &mut self,
        RevokeToken { token: id }: &RevokeToken,
    ) -> Result<(), Stop> {
        if self.rows.get::<KeptToken>(id)?.is_none() {
            return Err(TokenRefusal::Unknown(id.clone()).into());
        }
        self.rows.remove::<KeptToken>(id)?;
        self.rows.note_tokens()?;
        Ok(())
    }

    pub(super) fn begin_session(&mut self, BeginSession(new): &BeginSession) -> Result<(), Stop> {
        let unknown = || TokenRefusal::Unknown(new.token.clone());
        let mut kept: KeptToken = self.rows.get(&new.token)?.ok_or_else(unknown)?;
        if !kept.token.begin_session(new, self.now) {
            return Err(unknown().into());
        }
        self.write_token(&kept)
    }

    pub(super) fn end_session(&mut self, end: &EndSession) -> Result<(), Stop> {
        let Some(mut kept) = self.rows.get::<KeptToken>(&end.token)? else {
            return Ok(());
        };
        let sessions = &mut kept.token.sessions;
        sessions.retain(|(hash, _)| !hash.matches(&end.session));
        self.write_token(&kept)
    }

    pub(super) fn use_tokens(&mut self, UseTokens { used }: &UseTokens) -> Result<(), Stop> {
        for (id, at) in used {
            let kept: Option<KeptToken> = self.rows.get(id)?;
            if let Some(mut kept) = kept.filter(|it| it.used_at < Some(*at)) {
                kept.used_at = Some(*at);
                self.rows.put(&kept)?;
            }
        }
        Ok(())
    }
}
