//! Counts values in buckets whose width is at most an eighth of their values.

use std::collections::BTreeMap;

use super::Spread;

/// Each power of two has this many buckets, as a power of two. Smaller values have one each.
const BITS: u32 = 3;

/// Only the buckets that have values. There are fewer than 500.
#[derive(Clone, Debug, Default)]
pub(crate) struct Histogram {
    counts: BTreeMap<u16, u64>,
    max: u64,
}

impl Histogram {
    pub(crate) fn add(&mut self, value: u64) {
        *self.counts.entry(bucket(value)).or_default() += 1;
        self.max = self.max.max(value);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (bucket, count) in &other.counts {
            *self.counts.entry(*bucket).or_default() += count;
        }
        self.max = self.max.max(other.max);
    }

    pub(crate) fn spread(&self) -> Spread {
        Spread {
            p50: self.percentile(50),
            p99: self.percentile(99),
            max: self.max,
        }
    }

    /// Returns the upper end of the bucket in which this percentage of the values is reached.
    fn percentile(&self, percent: u64) -> u64 {
        let all: u64 = self.counts.values().sum();
        let wanted = (all * percent).div_ceil(100);
        let mut seen = 0;
        let mut counts = self.counts.iter();
        let reached = counts.find(|(_, count)| {
            seen += **count;
            seen >= wanted
        });
        reached.map_or(0, |(bucket, _)| upper(*bucket).min(self.max))
    }
}

/// Returns the bucket of a value.
fn bucket(value: u64) -> u16 {
    let power = value.checked_ilog2().unwrap_or(0);
    let index = match power.checked_sub(BITS) {
        None | Some(0) => value,
        Some(shift) => (u64::from(shift) << BITS) + (value >> shift),
    };
    // At most 64 powers of eight buckets.
    u16::try_from(index).unwrap_or(u16::MAX)
}

/// Returns the largest value of a bucket.
fn upper(bucket: u16) -> u64 {
    let bucket = u64::from(bucket);
    let Some(shift) = (bucket >> BITS).checked_sub(1).filter(|shift| *shift > 0) else {
        return bucket;
    };
    let start = bucket - (shift << BITS);
    let next = (u128::from(start) + 1) << shift;
    u64::try_from(next - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Histogram, bucket, upper};

    proptest! {
        #[test]
        fn a_value_is_in_its_bucket(value: u64) {
            let of = bucket(value);
            prop_assert!(of < 500);
            prop_assert!(upper(of) >= value);
            prop_assert!(upper(of) - value <= value / 8);
            prop_assert!(of == 0 || upper(of - 1) < value);
        }

        #[test]
        fn percentiles_are_at_most_an_eighth_too_high(mut values in prop::collection::vec(0..1_000_000_u64, 1..200)) {
            let (mut first, mut second) = (Histogram::default(), Histogram::default());
            for (index, value) in values.iter().enumerate() {
                if index % 2 == 0 { first.add(*value) } else { second.add(*value) }
            }
            first.merge(&second);
            values.sort_unstable();
            for percent in [50, 99] {
                let exact = values[(values.len() * percent).div_ceil(100) - 1];
                let found = first.percentile(percent as u64);
                prop_assert!(exact <= found && found <= exact + exact / 8);
            }
            prop_assert_eq!(first.spread().max, *values.last().unwrap());
        }
    }

    #[test]
    fn equal_values_are_exact() {
        let mut histogram = Histogram::default();
        (0..10).for_each(|_| histogram.add(12_345));
        let spread = histogram.spread();
        assert_eq!(
            (spread.p50, spread.p99, spread.max),
            (12_345, 12_345, 12_345)
        );
        assert_eq!(Histogram::default().spread().p50, 0);
    }
}
