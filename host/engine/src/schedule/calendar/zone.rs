//! Finds the instants at which a time zone shows the times of a pattern.

use host_core::time::Time;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};

use super::pattern::Pattern;

/// The most stretches of time with one offset that a search looks at. Even a pattern that falls into a gap of each change
/// of clocks looks at four for each, which makes 160 in ten years with four changes.
const STRETCHES_MAX: usize = 400;

/// No two offsets of a zone differ as much as this, in seconds.
const OFFSETS_DIFFER_MAX: i64 = 48 * 3_600;

/// Returns the first time after `after` and up to `until` at which a zone shows a time of the pattern.
///
/// It looks at one stretch of time with the same offset after the other: there, the clock on the wall shows each time once.
pub(super) fn first_between(
    pattern: &Pattern,
    zone: &TimeZone,
    after: Time,
    until: Time,
) -> Option<Time> {
    let after = after.0.div_euclid(1_000);
    let until = Timestamp::from_millisecond(until.0).unwrap_or(Timestamp::MAX);
    let last = zone.to_datetime(until).date().tomorrow().ok()?;
    let until = until.as_second();
    let mut from = after;
    for _ in 0..STRETCHES_MAX {
        #[cfg(test)]
        super::steps::take();
        let start = Timestamp::from_second(from).ok()?;
        let offset = zone.to_offset(start);
        let local = pattern.first_from(offset.to_datetime(start), last)?;
        let found = offset.to_timestamp(local).ok()?.as_second();
        let change = zone.following(start).next();
        let Some(change) = change.filter(|change| change.timestamp().as_second() <= found) else {
            if found > after && !(pattern.is_once_a_day() && is_repeated(zone, local, found)) {
                return (found <= until).then(|| Time(found * 1_000));
            }
            from = found + 1;
            continue;
        };
        let at = change.timestamp().as_second();
        let is_in_gap = local < change.offset().to_datetime(change.timestamp());
        if pattern.is_once_a_day() && is_in_gap && at > after {
            return (at <= until).then(|| Time(at * 1_000));
        }
        // Long before `found`, no offset makes a clock show a time of the pattern, unless it shows earlier times again.
        from = if at - from < OFFSETS_DIFFER_MAX {
            at
        } else {
            at.max(found - OFFSETS_DIFFER_MAX)
        };
    }
    debug_assert!(false, "the search for {pattern:?} has no end after {after}");
    None
}

/// Returns whether a zone has shown a local time before, because its clocks were set back.
fn is_repeated(zone: &TimeZone, local: DateTime, second: i64) -> bool {
    match zone.to_ambiguous_timestamp(local).offset() {
        AmbiguousOffset::Fold { before, .. } => before
            .to_timestamp(local)
            .is_ok_and(|first| first.as_second() < second),
        AmbiguousOffset::Gap { .. } | AmbiguousOffset::Unambiguous { .. } => false,
    }
}
