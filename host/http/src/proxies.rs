//! The proxies in front of a listener that are believed: what they say of their clients counts as if the
//! listener had seen it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName};
use ipnet::IpNet;

use crate::peer::Peer;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Networks of trusted proxies. Clones share them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxies(Arc<[IpNet]>);

impl FromIterator<IpNet> for Proxies {
    fn from_iter<T: IntoIterator<Item = IpNet>>(networks: T) -> Self {
        Self(networks.into_iter().collect())
    }
}

impl Proxies {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a proxy at this address is trusted.
    pub fn has(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }

    /// Returns whether `peer` may send requests without TLS: a process of this machine, or a proxy.
    pub(crate) fn may_be_plain(&self, peer: &Peer) -> bool {
        peer.address
            .is_none_or(|address| address.is_loopback() || self.has(address))
    }

    /// Returns who sent a request. Only a trusted proxy is believed.
    pub(crate) fn client(&self, peer: &Peer, headers: &HeaderMap) -> Peer {
        let mut client = peer.clone();
        let Some(proxy) = peer.address.filter(|address| self.has(*address)) else {
            return client;
        };
        client.address = Some(self.client_address(proxy, headers));
        let last = headers
            .get_all(FORWARDED_PROTO)
            .iter()
            .next_back()
            .and_then(|value| value.to_str().ok());
        if let Some(protocol) = last.and_then(|value| value.rsplit(',').next()) {
            client.is_tls = protocol.trim().eq_ignore_ascii_case("https");
        }
        client
    }

    /// Returns the last address that is not a trusted proxy's: those before it, the client may have made up.
    fn client_address(&self, proxy: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut nearest = proxy;
        for value in headers.get_all(FORWARDED_FOR).iter().rev() {
            for text in value.to_str().unwrap_or_default().rsplit(',') {
                let Some(address) = address(text.trim()) else {
                    return nearest;
                };
                nearest = address;
                if !self.has(address) {
                    return nearest;
                }
            }
        }
        nearest
    }
}

/// Reads an address, which some proxies write with a port.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.trim_matches(['[', ']']).parse::<IpAddr>();
    let with_port = || text.parse::<SocketAddr>().map(|it| it.ip());
    bare.or_else(|_| with_port())
        .ok()
        .map(|it| it.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_trusted_proxies_are_believed_about_their_clients() {
        let proxies: Proxies = ["10.0.0.0/8", "fd00::/8"]
            .into_iter()
            .map(|it| it.parse::<IpNet>().unwrap())
            .collect();
        #[rustfmt::skip]
        let table: &[(&str, &[&str], &[&str], &str, bool)] = &[
            ("10.0.0.1",  &["192.0.2.1"],                 &["https"],         "192.0.2.1",    true),
            ("10.0.0.1",  &["192.0.2.1"],                 &["http"],          "192.0.2.1",    false),
            ("10.0.0.1",  &["192.0.2.1"],                 &[],                "192.0.2.1",    false),
            ("10.0.0.1",  &[],                            &["HTTPS"],         "10.0.0.1",     true),
            ("fd00::1",   &["2001:db8::1"],               &["https"],         "2001:db8::1",  true),
            ("10.0.0.1",  &["[2001:db8::1]:80"],          &[],                "2001:db8::1",  false),
            ("10.0.0.1",  &["192.0.2.1:4711"],            &[],                "192.0.2.1",    false),
            ("10.0.0.1",  &["::ffff:192.0.2.1"],          &[],                "192.0.2.1",    false),
            // A client writes what it likes before what its proxy adds.
            ("10.0.0.1",  &["127.0.0.1, 192.0.2.1"],      &["https,http"],    "192.0.2.1",    false),
            ("10.0.0.1",  &["127.0.0.1", "192.0.2.1"],    &["https", "http"], "192.0.2.1",    false),
            ("10.0.0.1",  &["192.0.2.1, 10.0.0.2"],       &["https"],         "192.0.2.1",    true),
            ("10.0.0.1",  &["192.0.2.1", "10.0.0.2"],     &["https"],         "192.0.2.1",    true),
            ("10.0.0.1",  &["10.0.0.3, 10.0.0.2"],        &["https"],         "10.0.0.3",     true),
            ("10.0.0.1",  &["192.0.2.1, unknown"],        &["https"],         "10.0.0.1",     true),
            ("10.0.0.1",  &["192.0.2.1, x, 10.0.0.2"],    &["https"],         "10.0.0.2",     true),
            // Others are not asked.
            ("192.0.2.9", &["127.0.0.1"],                 &["https"],         "192.0.2.9",    false),
            ("127.0.0.1", &["192.0.2.1"],                 &["https"],         "127.0.0.1",    false),
        ];
        for (from, forwarded_for, protocols, address, is_tls) in table {
            let mut headers = HeaderMap::new();
            for value in *forwarded_for {
                headers.append(FORWARDED_FOR, value.parse().unwrap());
            }
            for value in *protocols {
                headers.append(FORWARDED_PROTO, value.parse().unwrap());
            }
            let peer = Peer::remote(from.parse().unwrap());
            let client = proxies.client(&peer, &headers);
            let expected = Peer {
                is_tls: *is_tls,
                ..Peer::remote(address.parse().unwrap())
            };
            assert_eq!(client, expected, "{from} {forwarded_for:?} {protocols:?}");
        }
        let local = Peer::local(7);
        assert_eq!(proxies.client(&local, &HeaderMap::new()), local);
    }

    #[test]
    fn only_this_machine_and_proxies_may_be_plain() {
        let proxies = Proxies::from_iter(["10.0.0.0/8".parse().unwrap()]);
        for (peer, may) in [
            ("127.0.0.1", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("10.1.2.3", true),
            ("192.0.2.1", false),
            ("fd00::1", false),
        ] {
            let peer = Peer::remote(peer.parse().unwrap());
            assert_eq!(proxies.may_be_plain(&peer), may, "{peer:?}");
        }
        assert!(proxies.may_be_plain(&Peer::local(7)));
    }
}
