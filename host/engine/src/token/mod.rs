//! Tokens: how their text is made and read, what is stored of one, and what a narrower one is.

mod apply;
mod command;
mod refusal;
pub mod tables;

#[cfg(test)]
mod tests;

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use host_core::access::{Principal, Scope, Verbs};
use host_core::hex::{from_hex, hex};
use host_core::secret::{TOKEN_ID_CHARS, TOKEN_PREFIX};
use host_core::time::Time;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use thiserror::Error;

pub use self::apply::AccessRows;
pub use self::command::*;
pub use self::refusal::*;

/// How many characters the parts of a token have behind its id: 256 random bits, and the checksum of both.
const SECRET_CHARS: usize = 43;
const CHECK_CHARS: usize = 6;

/// How many characters a token has.
const TOKEN_CHARS: usize = TOKEN_PREFIX.len() + TOKEN_ID_CHARS + 1 + SECRET_CHARS + CHECK_CHARS;

/// The longest name of a token, in bytes.
pub const NAME_BYTES_MAX: usize = 128;

/// How many tokens a store keeps at most.
pub const TOKENS_MAX: u64 = 10_000;

/// The most networks that a token may be used from.
pub const NETWORKS_MAX: usize = 64;

/// How long a session lasts at most, in milliseconds: 12 hours.
pub const SESSION_MS: u64 = 12 * 3_600_000;

/// The most sessions of a token. One more ends the oldest.
pub const SESSIONS_MAX: usize = 32;

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The id of a token, which is not secret: 12 letters and digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TokenId(String);

/// A text that is no id of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a token's id has {TOKEN_ID_CHARS} letters and digits")]
pub struct NoTokenId;

impl TokenId {
    /// Returns the token whose holder a principal is.
    pub fn of_principal(principal: &Principal) -> Option<Self> {
        principal.name.strip_prefix("token:")?.parse().ok()
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for TokenId {
    type Error = NoTokenId;

    fn try_from(text: String) -> Result<Self, NoTokenId> {
        let is_id =
            text.len() == TOKEN_ID_CHARS && text.bytes().all(|it| it.is_ascii_alphanumeric());
        is_id.then_some(Self(text)).ok_or(NoTokenId)
    }
}

impl FromStr for TokenId {
    type Err = NoTokenId;

    fn from_str(text: &str) -> Result<Self, NoTokenId> {
        text.to_owned().try_into()
    }
}

impl From<TokenId> for String {
    fn from(id: TokenId) -> Self {
        id.0
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A whole token. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenText(String);

impl fmt::Debug for TokenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenText")
    }
}

impl TokenText {
    /// Makes a token of an id and 256 random bits.
    pub fn new(id: &TokenId, random: &[u8; 32]) -> Self {
        let mut text = format!("{TOKEN_PREFIX}{id}_");
        push_digits(&mut text, random, SECRET_CHARS);
        let check = checksum(&text);
        push_digits(&mut text, &check, CHECK_CHARS);
        Self(text)
    }

    /// Reads a token. `None` for a text that no host has made: a typing error, or no token at all.
    pub fn read(text: &str) -> Option<Self> {
        let rest = text.strip_prefix(TOKEN_PREFIX)?;
        if text.len() != TOKEN_CHARS || !rest.is_ascii() {
            return None;
        }
        let (id, secret) = rest.split_once('_')?;
        id.parse::<TokenId>().ok()?;
        let is_made_of_digits = secret.bytes().all(|it| it.is_ascii_alphanumeric());
        let (signed, check) = text.split_at(TOKEN_CHARS - CHECK_CHARS);
        let mut expected = String::new();
        push_digits(&mut expected, &checksum(signed), CHECK_CHARS);
        (is_made_of_digits && check == expected).then(|| Self(text.to_owned()))
    }

    /// Returns the id of the token.
    pub fn id(&self) -> TokenId {
        let end = TOKEN_PREFIX.len() + TOKEN_ID_CHARS;
        TokenId(
            self.0
                .get(TOKEN_PREFIX.len()..end)
                .unwrap_or_default()
                .to_owned(),
        )
    }

    /// Returns the token itself.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns what is stored of it.
    pub fn hash(&self) -> TokenHash {
        TokenHash::of(&self.0)
    }
}

/// Makes an id of random bits.
pub fn token_id(random: &[u8; 32]) -> TokenId {
    let mut text = String::new();
    push_digits(&mut text, random, TOKEN_ID_CHARS);
    TokenId(text)
}

fn checksum(text: &str) -> [u8; 4] {
    let [a, b, c, d, ..] = <[u8; 32]>::from(Sha256::digest(text));
    [a, b, c, d]
}

/// Appends the last `count` digits of a number in base 62. The most significant byte is the first.
fn push_digits(text: &mut String, number: &[u8], count: usize) {
    let mut rest = number.to_vec();
    let mut digits = Vec::with_capacity(count);
    for _ in 0..count {
        let mut carry = 0_u32;
        for byte in &mut rest {
            let value = (carry << 8) | u32::from(*byte);
            *byte = u8::try_from(value / 62).unwrap_or(u8::MAX);
            carry = value % 62;
        }
        digits.push(char::from(DIGITS[carry as usize]));
    }
    text.extend(digits.iter().rev());
}

/// The SHA-256 of a token.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// Hashes what is presented as a token.
    pub fn of(text: &str) -> Self {
        Self(Sha256::digest(text).into())
    }

    /// Returns whether both are the same, in constant time.
    pub fn matches(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }

    /// The hash of no token.
    pub const NONE: Self = Self([0; 32]);
}

impl PartialEq for TokenHash {
    fn eq(&self, other: &Self) -> bool {
        self.matches(other)
    }
}

impl Eq for TokenHash {}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash")
    }
}

impl From<TokenHash> for String {
    fn from(hash: TokenHash) -> Self {
        hex(&hash.0)
    }
}

impl TryFrom<String> for TokenHash {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let hash = from_hex(&text).ok_or("a hash has 64 hexadecimal digits")?;
        Ok(Self(hash))
    }
}

/// What may be done with a token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rights {
    pub verbs: Verbs,
    pub scope: Scope,
    /// The networks that it may be used from. An empty list means all.
    pub from: Vec<IpNet>,
    /// How many requests it may make per second, over all nodes.
    pub rate: Option<u32>,
    /// How many of its jobs may wait or run concurrently.
    pub max_waiting: Option<u64>,
    /// When it ends.
    pub expires_at: Option<Time>,
}

impl Rights {
    /// Returns the first right that goes beyond those of another, in words. When they end does not count.
    pub fn beyond(&self, other: &Self) -> Option<String> {
        let verbs = self.verbs.without(other.verbs);
        if verbs != Verbs::NONE {
            return Some(format!("the verbs {verbs}"));
        }
        if !self.scope.is_within(&other.scope) {
            return Some("queues or handlers outside of its scope".to_owned());
        }
        let covered = |net: &IpNet| other.from.iter().any(|it| it.contains(net));
        let is_from_within = !self.from.is_empty() && self.from.iter().all(covered);
        if !other.from.is_empty() && !is_from_within {
            return Some("networks that it may not be used from".to_owned());
        }
        if is_more(self.rate, other.rate) {
            return Some("a higher rate".to_owned());
        }
        is_more(self.max_waiting, other.max_waiting).then(|| "more waiting jobs".to_owned())
    }
}

/// Returns whether a limit allows more than another. None allows everything.
fn is_more<T: PartialOrd>(one: Option<T>, other: Option<T>) -> bool {
    other.is_some_and(|other| one.is_none_or(|one| one > other))
}

/// A token as it is stored. Its text is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    pub id: TokenId,
    pub hash: TokenHash,
    pub name: String,
    /// The principal that made it.
    pub created_by: String,
    pub created_at: Time,
    pub rights: Rights,
    /// The hash before the last rotation, and until when it still counts.
    pub previous: Option<(TokenHash, Time)>,
    /// The sessions of browsers that have presented it, the oldest first: the hash of each, and when it ends.
    #[serde(default)]
    pub sessions: Vec<(TokenHash, Time)>,
}

/// A proof that a caller holds a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Whether it is a session instead of a text of the token.
    pub is_session: bool,
    pub hash: TokenHash,
    /// When it ends.
    pub ends_at: Option<Time>,
}

/// A session to begin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewSession {
    pub token: TokenId,
    /// The text of the token that the browser has presented.
    pub presented: TokenHash,
    pub session: TokenHash,
    pub until: Time,
}

impl Token {
    /// Returns all proofs that a caller holds it. None lasts longer than the token.
    pub fn proofs(&self) -> impl Iterator<Item = Proof> {
        let end = self.rights.expires_at;
        let proof = move |is_session, hash, until: Option<Time>| Proof {
            is_session,
            hash,
            ends_at: [until, end].into_iter().flatten().min(),
        };
        let texts = std::iter::once((self.hash, None))
            .chain(self.previous.map(|(hash, until)| (hash, Some(until))));
        let sessions = self.sessions.iter();
        texts
            .map(move |(hash, until)| proof(false, hash, until))
            .chain(sessions.map(move |(hash, until)| proof(true, *hash, Some(*until))))
    }

    /// Returns whether it may be used from an address.
    pub fn is_for(&self, address: Option<IpAddr>) -> bool {
        let from = &self.rights.from;
        from.is_empty()
            || address.is_some_and(|address| from.iter().any(|net| net.contains(&address)))
    }

    /// Returns the proof with this hash, if there is one that has not expired.
    pub fn proof(&self, is_session: bool, presented: &TokenHash, now: Time) -> Option<Proof> {
        let mut proofs = self.proofs();
        let is = |it: &Proof| it.hash.matches(presented) && it.ends_at.is_none_or(|end| now < end);
        proofs.find(|it| it.is_session == is_session && is(it))
    }

    /// Begins a session, in the place of the oldest if there are too many. Returns false if the token is not what was
    /// presented.
    pub fn begin_session(&mut self, new: &NewSession, now: Time) -> bool {
        if self.proof(false, &new.presented, now).is_none() {
            return false;
        }
        self.sessions.retain(|(_, end)| now < *end);
        let over = (self.sessions.len() + 1).saturating_sub(SESSIONS_MAX);
        self.sessions.drain(..over);
        self.sessions.push((new.session, new.until));
        true
    }

    /// Returns whether it has expired.
    pub fn has_ended(&self, now: Time) -> bool {
        self.rights.expires_at.is_some_and(|end| now >= end)
    }

    /// Returns on whose behalf requests with it are made.
    pub fn principal(&self) -> Principal {
        Principal {
            name: format!("token:{}", self.id),
            label: Some(self.name.clone()),
            verbs: self.rights.verbs,
            scope: self.rights.scope.clone(),
            max_waiting: self.rights.max_waiting,
        }
    }
}

/// A token with what changes at each use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptToken {
    pub token: Token,
    /// When it was used last, at most a minute late.
    pub used_at: Option<Time>,
}
