//! Whose request it is: the bearer token names the pool. All reasons to refuse look the same.

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;

use super::super::refusal::{Code, Refused};
use super::super::section::{DeltaConfig, PoolConfig};

/// A request with a token that a pool has.
#[derive(Debug)]
pub(super) struct Access(u32);

impl Access {
    pub(super) fn of(config: &DeltaConfig, headers: &HeaderMap) -> Result<Self, Refused> {
        if config.pools.is_empty() {
            let message = "no pool of Delta runners is configured; add \
                           [protocol.delta.runners.NAME] with a token_file";
            return Err(Refused::new(Code::Off, message));
        }
        // Without a token the same work is done, so that the time tells nothing.
        let pool = config.tokens.pool(bearer(headers).unwrap_or_default());
        pool.map(Self).ok_or_else(denied)
    }

    pub(super) fn pool(self, config: &DeltaConfig) -> Result<&PoolConfig, Refused> {
        let place = usize::try_from(self.0).unwrap_or(usize::MAX);
        config.pools.get(place).ok_or_else(denied)
    }
}

fn denied() -> Refused {
    let message = "a bearer token of a pool of runners is needed";
    Refused::new(Code::Auth, message)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let (Some(only), None) = (all.next(), all.next()) else {
        return None;
    };
    let (scheme, token) = only.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token)
}
