//! Bearer tokens: each belongs to one pool, and a request that bears it comes from a runner of that pool. Only
//! hashes of tokens are kept.

use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConditionallySelectable as _, ConstantTimeEq as _};

/// The longest token, in bytes.
const TOKEN_BYTES_MAX: usize = 512;

type Hash = [u8; 32];

/// The tokens of all pools, by the number of the pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tokens(Vec<(Hash, u32)>);

/// Cuts the lines of a file or variable into tokens. The error is for people and shows no token.
pub(crate) fn lines(text: &str) -> Result<Vec<&str>, String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let tokens: Vec<&str> = lines.collect();
    let is_token = |token: &&str| {
        token.len() <= TOKEN_BYTES_MAX && token.bytes().all(|byte| byte.is_ascii_graphic())
    };
    if tokens.is_empty() {
        return Err("the file has no token; expected one per line".to_owned());
    }
    match tokens.iter().position(|token| !is_token(token)) {
        Some(at) => Err(format!(
            "token {} is not 1 to {TOKEN_BYTES_MAX} printable ASCII characters without blanks",
            at + 1
        )),
        None => Ok(tokens),
    }
}

impl Tokens {
    /// Adds a token of a pool. Returns false if another pool has it.
    pub(crate) fn add(&mut self, token: &str, pool: u32) -> bool {
        let hash: Hash = Sha256::digest(token.as_bytes()).into();
        if let Some((_, other)) = self.0.iter().find(|(known, _)| *known == hash) {
            return *other == pool;
        }
        self.0.push((hash, pool));
        true
    }

    /// Returns the pool of a token. Takes the same time for every token.
    pub(crate) fn pool(&self, token: &str) -> Option<u32> {
        let hash: Hash = Sha256::digest(token.as_bytes()).into();
        let (mut found, mut pool) = (Choice::from(0), 0);
        for (known, its) in &self.0 {
            let is_it = known.ct_eq(&hash);
            pool.conditional_assign(its, is_it);
            found |= is_it;
        }
        bool::from(found).then_some(pool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_belongs_to_one_pool() {
        let mut tokens = Tokens::default();
        assert!(tokens.add("one", 0) && tokens.add("other", 0) && tokens.add("two", 1));
        assert!(tokens.add("one", 0) && !tokens.add("one", 1));
        for (token, pool) in [
            ("one", Some(0)),
            ("other", Some(0)),
            ("two", Some(1)),
            ("", None),
            ("on", None),
            ("ONE", None),
        ] {
            assert_eq!(tokens.pool(token), pool, "{token}");
        }
        assert!(!format!("{tokens:?}").contains("other"));
    }

    #[test]
    fn a_file_has_one_token_a_line() {
        assert_eq!(lines("a\n\n  b \r\n"), Ok(vec!["a", "b"]));
        for (text, error) in [
            ("", "no token"),
            (" \n", "no token"),
            ("a\nsecret word", "token 2"),
            ("sécret", "token 1"),
        ] {
            let message = lines(text).unwrap_err();
            assert!(
                message.contains(error) && !message.contains("cret"),
                "{message}"
            );
        }
        assert!(lines(&"x".repeat(TOKEN_BYTES_MAX + 1)).is_err());
    }
}
