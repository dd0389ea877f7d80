//! Addresses that present wrong tokens: each may do so ten times a minute, and is then put off until the minute is
//! over. Pure.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

use host_core::time::Time;

/// How many wrong tokens an address may present in [`WINDOW_MS`].
const WRONG_MAX: u32 = 10;

/// How long wrong tokens count, in milliseconds.
const WINDOW_MS: u64 = 60_000;

/// How many addresses are remembered. The one that began first is forgotten for another.
const ADDRESSES_MAX: usize = 4_096;

/// How many wrong tokens came from where.
#[derive(Debug, Default)]
pub(super) struct Failures(HashMap<IpAddr, Wrong>);

#[derive(Debug)]
struct Wrong {
    since: Time,
    count: u32,
}

impl Failures {
    /// Returns for how many seconds an address is put off.
    pub(super) fn wait(&self, address: Option<IpAddr>, now: Time) -> Option<u32> {
        let wrong = self.0.get(&network(address?))?;
        let left = WINDOW_MS.checked_sub(now.since_ms(wrong.since))?;
        (wrong.count >= WRONG_MAX && left > 0)
            .then(|| u32::try_from(left.div_ceil(1_000)).unwrap_or(u32::MAX))
    }

    /// Takes back a wrong token: another node has made it.
    pub(super) fn forgive(&mut self, address: Option<IpAddr>) {
        let wrong = address.and_then(|address| self.0.get_mut(&network(address)));
        if let Some(wrong) = wrong {
            wrong.count = wrong.count.saturating_sub(1);
        }
    }

    /// Records that an address has presented a wrong token.
    pub(super) fn record(&mut self, address: Option<IpAddr>, now: Time) {
        let Some(address) = address.map(network) else {
            return;
        };
        let is_over = |wrong: &Wrong| now.since_ms(wrong.since) >= WINDOW_MS;
        if !self.0.contains_key(&address) && self.0.len() >= ADDRESSES_MAX {
            self.0.retain(|_, wrong| !is_over(wrong));
            let first = self.0.iter().min_by_key(|(_, wrong)| wrong.since);
            if let Some(first) = first.map(|(address, _)| *address)
                && self.0.len() >= ADDRESSES_MAX
            {
                self.0.remove(&first);
            }
        }
        let fresh = Wrong {
            since: now,
            count: 0,
        };
        let wrong = self.0.entry(address).or_insert(fresh);
        if is_over(wrong) {
            *wrong = Wrong {
                since: now,
                count: 0,
            };
        }
        wrong.count += 1;
    }
}

/// Returns the address by which a client counts: one has a whole /64 of IPv6.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Option<IpAddr> {
        text.parse().ok()
    }

    #[test]
    fn ten_wrong_tokens_put_one_address_off_for_the_rest_of_the_minute() {
        let mut failures = Failures::default();
        let (bad, good) = (address("192.0.2.1"), address("192.0.2.2"));
        for n in 0..10 {
            assert_eq!(failures.wait(bad, Time(n * 1_000)), None, "{n}");
            failures.record(bad, Time(n * 1_000));
        }
        assert_eq!(failures.wait(bad, Time(9_500)), Some(51));
        assert_eq!(failures.wait(good, Time(9_500)), None);
        assert_eq!(failures.wait(bad, Time(59_999)), Some(1));
        assert_eq!(failures.wait(bad, Time(60_000)), None);
        failures.record(bad, Time(60_000));
        assert_eq!(failures.wait(bad, Time(60_001)), None, "a new minute");
        // A local socket has no address.
        for _ in 0..20 {
            failures.record(None, Time(0));
        }
        assert_eq!(failures.wait(None, Time(0)), None);
    }

    #[test]
    fn a_client_is_its_network_on_ipv6() {
        let mut failures = Failures::default();
        for n in 0..10 {
            failures.record(address(&format!("2001:db8::{n}")), Time(0));
        }
        assert!(failures.wait(address("2001:db8::ffff"), Time(1)).is_some());
        assert!(failures.wait(address("2001:db8:0:1::1"), Time(1)).is_none());
    }

    #[test]
    fn the_memory_for_addresses_is_bounded() {
        let mut failures = Failures::default();
        for n in 0..20_000_u32 {
            failures.record(Some(IpAddr::V4(n.into())), Time(i64::from(n)));
        }
        assert_eq!(failures.0.len(), ADDRESSES_MAX);
    }
}
