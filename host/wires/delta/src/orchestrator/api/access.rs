//! Whose request it is: the bearer token names the pool. A message about a lease that a host has handed out in
//! a file needs none: the lease id is the credential, at each node. All reasons to refuse look the same.

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;

use crate::messages::lease_id::LeaseText;
use crate::orchestrator::Pools;
use crate::refusals::{Code, Stale, WireRefusal};
use crate::settings::{DeltaConfig, PoolConfig};

/// By what a request is made.
#[derive(Clone, Copy, Debug)]
pub(super) enum Access {
    /// With a token of the pool at this place.
    Token(u32),
    /// With nothing but what it says.
    Lease,
}

impl Access {
    pub(super) fn of(config: &DeltaConfig, headers: &HeaderMap) -> Result<Self, WireRefusal> {
        if config.pools.is_empty() {
            let message = "no pool of Delta runners is configured; add \
                           [protocol.delta.runners.NAME] with a token_file or a cmd";
            return Err(WireRefusal::new(Code::Off, message));
        }
        if config.launches() && !headers.contains_key(AUTHORIZATION) {
            return Ok(Self::Lease);
        }
        // Without a token the same work is done, so that the time tells nothing.
        let pool = config.tokens.pool(bearer(headers).unwrap_or_default());
        pool.map(Self::Token).ok_or_else(denied)
    }

    /// Returns the pool whose token it has.
    pub(super) fn pool(self, config: &DeltaConfig) -> Result<&PoolConfig, WireRefusal> {
        let Self::Token(place) = self else {
            return Err(denied());
        };
        let place = usize::try_from(place).unwrap_or(usize::MAX);
        config.pools.get(place).ok_or_else(denied)
    }

    /// Returns the pool of a message about a lease.
    pub(super) async fn pool_of<'a>(
        self,
        pools: &'a Pools,
        lease: Option<&LeaseText>,
    ) -> Result<&'a PoolConfig, WireRefusal> {
        match (self, lease) {
            (Self::Token(_), _) => self.pool(&pools.config),
            (Self::Lease, None) => Err(denied()),
            (Self::Lease, Some(lease)) => {
                // A lease that needs a token looks like one that there never was.
                let pool = pools.pool_of_file(lease).await?;
                pool.ok_or_else(|| WireRefusal::stale(Stale::Unknown))
            }
        }
    }
}

fn denied() -> WireRefusal {
    let message = "the bearer token of a pool of runners is required";
    WireRefusal::new(Code::Auth, message)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let (Some(only), None) = (all.next(), all.next()) else {
        return None;
    };
    let (scheme, token) = only.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token)
}
