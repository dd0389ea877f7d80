//! Which addresses requests may go to: public ones, and those of networks that the configuration names.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// Networks of IPv4 that are not public, and addresses of clouds that answer any machine of theirs.
const NOT_PUBLIC_V4: &[Ipv4Net] = &[
    v4([0, 0, 0, 0], 8),        // this network
    v4([10, 0, 0, 0], 8),       // private
    v4([100, 64, 0, 0], 10),    // carrier-grade NAT
    v4([127, 0, 0, 0], 8),      // loopback
    v4([168, 63, 129, 16], 32), // metadata of Azure
    v4([169, 254, 0, 0], 16),   // link-local, metadata of most clouds
    v4([172, 16, 0, 0], 12),    // private
    v4([192, 0, 0, 0], 24),     // protocol assignments, metadata of Oracle
    v4([192, 0, 2, 0], 24),     // documentation
    v4([192, 88, 99, 0], 24),   // 6to4 relays
    v4([192, 168, 0, 0], 16),   // private
    v4([198, 18, 0, 0], 15),    // benchmarks
    v4([198, 51, 100, 0], 24),  // documentation
    v4([203, 0, 113, 0], 24),   // documentation
    v4([224, 0, 0, 0], 4),      // multicast
    v4([240, 0, 0, 0], 4),      // reserved, broadcast
];

/// The network of public IPv6 addresses.
const PUBLIC_V6: Ipv6Net = v6([0x2000, 0, 0], 3);

/// Networks in [`PUBLIC_V6`] that are not public. IPv4 addresses inside of IPv6 are either here or outside.
const NOT_PUBLIC_V6: &[Ipv6Net] = &[
    v6([0x2001, 0, 0], 23),     // protocol assignments, Teredo
    v6([0x2001, 0xdb8, 0], 32), // documentation
    v6([0x2002, 0, 0], 16),     // 6to4
    v6([0x3fff, 0, 0], 20),     // documentation
];

const fn v4(bytes: [u8; 4], prefix: u8) -> Ipv4Net {
    let [a, b, c, d] = bytes;
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn v6(start: [u16; 3], prefix: u8) -> Ipv6Net {
    let [a, b, c] = start;
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0), prefix)
}

/// Returns whether requests may go to `address`: it is public, or in one of `networks`.
pub(crate) fn is_allowed(address: IpAddr, networks: &[IpNet]) -> bool {
    networks.iter().any(|network| network.contains(&address)) || is_public(address)
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !NOT_PUBLIC_V4.iter().any(|it| it.contains(&address)),
        IpAddr::V6(address) => {
            PUBLIC_V6.contains(&address) && !NOT_PUBLIC_V6.iter().any(|it| it.contains(&address))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_allowed() {
        for public in [
            "1.1.1.1",
            "8.8.8.8",
            "172.32.0.1",
            "100.128.0.1",
            "2606:4700::1111",
            "2a00::1",
        ] {
            assert!(is_allowed(public.parse().unwrap(), &[]), "{public}");
        }
        for other in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "100.100.100.200",
            "127.0.0.1",
            "127.8.8.8",
            "168.63.129.16",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.192",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "64:ff9b::7f00:1",
            "64:ff9b:1::7f00:1",
            "100::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_allowed(other.parse().unwrap(), &[]), "{other}");
        }
    }

    #[test]
    fn named_networks_are_allowed() {
        let networks = ["10.1.0.0/16".parse().unwrap(), "fd00::/8".parse().unwrap()];
        for (address, allowed) in [
            ("10.1.2.3", true),
            ("10.2.0.1", false),
            ("::ffff:10.1.2.3", false),
            ("fd12::1", true),
            ("127.0.0.1", false),
        ] {
            assert_eq!(
                is_allowed(address.parse().unwrap(), &networks),
                allowed,
                "{address}"
            );
        }
    }
}
