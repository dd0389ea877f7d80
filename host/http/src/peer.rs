//! What a connection knows of its peer. Each request has it in its extensions.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use rustix::process::geteuid;
use tokio_util::sync::CancellationToken;

/// The peer of a connection, as far as the connection itself proves it. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// The remote address, or the one that a trusted proxy forwards for. `None` on a local socket.
    pub address: Option<IpAddr>,
    /// Whether the peer speaks TLS, to this process or to a trusted proxy.
    pub is_tls: bool,
    /// The name in the verified client certificate by which the configuration allows it.
    pub certificate_name: Option<Arc<str>>,
    /// The user of the process on the other end of a local socket, as the kernel reports it.
    pub uid: Option<u32>,
}

impl<S: Send + Sync> FromRequestParts<S> for Peer {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get().cloned().unwrap_or_default())
    }
}

impl Peer {
    /// The peer of a TCP connection without TLS.
    pub fn remote(address: IpAddr) -> Self {
        Self {
            // An IPv4 client of a listener on IPv6 has the address that it would have on IPv4.
            address: Some(address.to_canonical()),
            ..Self::default()
        }
    }

    /// The peer of a local socket.
    pub fn local(uid: u32) -> Self {
        Self {
            uid: Some(uid),
            ..Self::default()
        }
    }

    /// Returns the user of a local peer that may not connect: neither ours nor root.
    pub(crate) fn other_user(&self) -> Option<u32> {
        let own = geteuid().as_raw();
        self.uid.filter(|uid| !may_connect(*uid, own))
    }
}

/// Cancelled when the client of a request has closed its side of the connection. It may still read the answer, or be
/// gone. Each request has it in its extensions.
#[derive(Clone, Debug, Default)]
pub struct ClientClosed(pub CancellationToken);

/// Returns the network by which a client counts: one has a whole /64 of IPv6.
pub fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
    }
}

/// Returns whether a process of user `peer` may connect to one of user `own`.
const fn may_connect(peer: u32, own: u32) -> bool {
    peer == own || peer == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_of_the_same_user_and_of_root_may_connect() {
        for (peer, own, may) in [
            (1_000, 1_000, true),
            (0, 1_000, true),
            (1_001, 1_000, false),
            (1, 0, false),
            (0, 0, true),
        ] {
            assert_eq!(may_connect(peer, own), may, "{peer} at {own}");
        }
    }
}
