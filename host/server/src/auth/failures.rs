//! Addresses that present wrong tokens: each may present ten wrong texts of one token a minute, and a hundred in all.
//! Further wrong ones are put off until the minute is over; what is right is never put off. Pure.

use std::collections::HashMap;
use std::net::IpAddr;

use host_core::time::Time;
use host_engine::token::TokenId;
use host_http::peer::network;

/// How many wrong texts of one token an address may present in [`WINDOW_MS`], and how many in all.
const WRONG_MAX: u32 = 10;
const WRONG_IN_ALL_MAX: u32 = 100;

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
    in_all: u32,
    /// By the id in the text, whether or not such a token exists; `None` for a text without an id.
    by_id: HashMap<Option<TokenId>, u32>,
}

impl Wrong {
    fn new(since: Time) -> Self {
        Self {
            since,
            in_all: 0,
            by_id: HashMap::new(),
        }
    }
}

impl Failures {
    /// Returns for how many seconds wrong texts with this id are put off.
    pub(super) fn wait(
        &self,
        address: Option<IpAddr>,
        id: Option<&TokenId>,
        now: Time,
    ) -> Option<u32> {
        let wrong = self.0.get(&network(address?))?;
        let left = WINDOW_MS.checked_sub(now.since_ms(wrong.since))?;
        let count = wrong.by_id.get(&id.cloned()).copied().unwrap_or(0);
        let is_over = count >= WRONG_MAX || wrong.in_all >= WRONG_IN_ALL_MAX;
        (is_over && left > 0).then(|| u32::try_from(left.div_ceil(1_000)).unwrap_or(u32::MAX))
    }

    /// Takes back a wrong token: another node has made it.
    pub(super) fn forgive(&mut self, address: Option<IpAddr>, id: Option<&TokenId>) {
        let wrong = address.and_then(|address| self.0.get_mut(&network(address)));
        let Some(wrong) = wrong else { return };
        if let Some(count) = wrong.by_id.get_mut(&id.cloned()) {
            *count = count.saturating_sub(1);
            wrong.in_all = wrong.in_all.saturating_sub(1);
        }
    }

    /// Records that an address has presented a wrong token.
    pub(super) fn record(&mut self, address: Option<IpAddr>, id: Option<TokenId>, now: Time) {
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
        let wrong = self.0.entry(address).or_insert_with(|| Wrong::new(now));
        if is_over(wrong) {
            *wrong = Wrong::new(now);
        }
        wrong.in_all += 1;
        *wrong.by_id.entry(id).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Option<IpAddr> {
        text.parse().ok()
    }

    fn id(n: u32) -> TokenId {
        TokenId::try_from(format!("{n:012}")).unwrap()
    }

    #[test]
    fn ten_wrong_texts_of_a_token_put_it_off_at_one_address_for_the_rest_of_the_minute() {
        let mut failures = Failures::default();
        let (bad, good) = (address("192.0.2.1"), address("192.0.2.2"));
        for of in [Some(id(1)), None] {
            let mut failures = Failures::default();
            let of = of.as_ref();
            for n in 0..10 {
                assert_eq!(failures.wait(bad, of, Time(n * 1_000)), None, "{n}");
                failures.record(bad, of.cloned(), Time(n * 1_000));
            }
            assert_eq!(failures.wait(bad, of, Time(9_500)), Some(51));
            assert_eq!(failures.wait(bad, Some(&id(2)), Time(9_500)), None);
            assert_eq!(failures.wait(good, of, Time(9_500)), None);
            assert_eq!(failures.wait(bad, of, Time(59_999)), Some(1));
            assert_eq!(failures.wait(bad, of, Time(60_000)), None);
            failures.record(bad, of.cloned(), Time(60_000));
            assert_eq!(failures.wait(bad, of, Time(60_001)), None, "a new minute");
        }
        // A local socket has no address.
        for _ in 0..20 {
            failures.record(None, None, Time(0));
        }
        assert_eq!(failures.wait(None, None, Time(0)), None);
    }

    #[test]
    fn a_hundred_wrong_texts_put_off_all_wrong_ones_of_an_address() {
        let mut failures = Failures::default();
        let bad = address("192.0.2.1");
        for n in 0..100 {
            assert_eq!(failures.wait(bad, Some(&id(n)), Time(0)), None, "{n}");
            failures.record(bad, Some(id(n)), Time(0));
        }
        assert_eq!(failures.wait(bad, Some(&id(100)), Time(0)), Some(60));
        failures.forgive(bad, Some(&id(7)));
        failures.forgive(bad, Some(&id(7)));
        failures.forgive(bad, Some(&id(100)));
        assert_eq!(failures.wait(bad, Some(&id(100)), Time(0)), None);
    }

    #[test]
    fn a_client_is_its_network_on_ipv6() {
        let mut failures = Failures::default();
        for n in 0..10 {
            failures.record(address(&format!("2001:db8::{n}")), None, Time(0));
        }
        let wait = |text| failures.wait(address(text), None, Time(1));
        assert!(wait("2001:db8::ffff").is_some());
        assert!(wait("2001:db8:0:1::1").is_none());
    }

    #[test]
    fn the_memory_for_addresses_is_bounded() {
        let mut failures = Failures::default();
        for n in 0..20_000_u32 {
            failures.record(Some(IpAddr::V4(n.into())), Some(id(n)), Time(i64::from(n)));
        }
        assert_eq!(failures.0.len(), ADDRESSES_MAX);
    }
}
