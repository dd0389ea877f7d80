//! How long the watchdog sleeps.

use super::{IDLE_TICKS_MAX, Pause, TickPolicy};

#[test]
fn ticks_are_quick_while_one_guest_computes() {
    let mut policy = TickPolicy::default();
    let pauses = [1, 1, 3, 5].map(|turns| policy.next(turns, false));
    assert_eq!(pauses, [Pause::Tick; 4]);
}

#[test]
fn ticks_are_slow_while_guests_take_short_turns() {
    let mut policy = TickPolicy::default();
    let pauses = [41, 80, 82, 200].map(|turns| policy.next(turns, false));
    assert_eq!(pauses, [Pause::SlowTick; 4]);
}

#[test]
fn ticks_are_quick_while_a_guest_yields_and_resumes() {
    let mut policy = TickPolicy::default();
    let pauses = [41, 81, 201].map(|turns| policy.next(turns, true));
    assert_eq!(pauses, [Pause::Tick; 3]);
    assert_eq!(policy.next(240, true), Pause::SlowTick);
}

#[test]
fn the_clock_stops_once_no_guest_has_computed_for_a_while() {
    let mut policy = TickPolicy::default();
    assert_eq!(policy.next(2, false), Pause::SlowTick);
    for _ in 0..IDLE_TICKS_MAX {
        assert_eq!(policy.next(2, false), Pause::SlowTick);
    }
    assert_eq!(policy.next(2, false), Pause::Parked);
    assert_eq!(policy.next(3, false), Pause::Tick);
}
