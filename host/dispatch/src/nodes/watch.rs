//! Which nodes count as dead: those without a heartbeat for [`LEASE`], as watched by this node's own clock the
//! whole time. No clock of the database or of another machine has a part in it. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use host_core::id::NodeId;
use host_engine::node::{Dead, HeartbeatRow, LEASE, Life};

/// After how long without an answered heartbeat a node stops its guests: what remains of [`LEASE`] is for
/// cells to end, and for clocks that do not run equally fast.
pub(super) const STOP: Duration = Duration::from_secs(7);

/// How long this node may have read nothing. After a longer pause it watches others from the start: while it could
/// not reach the database, neither could they.
const AWAY_MAX: Duration = Duration::from_secs(4);

/// How far host times may differ before they are moved, in milliseconds.
const APART_MS: u64 = 20;

/// How far a heartbeat moves host time, in milliseconds.
const STEP_MS: i64 = 1;

/// The other nodes, and since when each has been silent.
#[derive(Debug, Default)]
pub(super) struct Watch {
    silent: BTreeMap<NodeId, Silent>,
    observed_at: Option<Duration>,
}

#[derive(Debug)]
struct Silent {
    epoch: i64,
    beat: i64,
    since: Duration,
}

impl Watch {
    /// Takes in what a heartbeat showed that was sent and answered at these times. Returns the nodes whose
    /// leases may be taken.
    pub(super) fn observe(
        &mut self,
        (sent, answered): (Duration, Duration),
        own: NodeId,
        nodes: &[HeartbeatRow],
    ) -> Vec<Dead> {
        let was_away = self
            .observed_at
            .is_none_or(|observed_at| answered.saturating_sub(observed_at) > AWAY_MAX);
        self.observed_at = Some(answered);
        if was_away {
            self.silent.clear();
        }
        let mut dead = Vec::new();
        for seen in nodes.iter().filter(|seen| seen.id != own) {
            let fresh = || Silent {
                epoch: seen.epoch,
                beat: seen.beat,
                since: answered,
            };
            let silent = self.silent.entry(seen.id).or_insert_with(fresh);
            if (silent.epoch, silent.beat) != (seen.epoch, seen.beat) {
                *silent = fresh();
            }
            let may_be_taken = match seen.life {
                Life::Lives => sent.saturating_sub(silent.since) >= LEASE,
                Life::Left => true,
                Life::Taken => false,
            };
            if may_be_taken {
                dead.push(Dead {
                    node: seen.id,
                    epoch: seen.epoch,
                    beat: seen.beat,
                });
            }
        }
        dead
    }
}

/// Returns how far the host times of living nodes are ahead of the database, in milliseconds: the middle
/// one. `None` if there is no other node.
pub(super) fn ahead_of_others(own: NodeId, nodes: &[HeartbeatRow]) -> Option<i64> {
    let others = nodes
        .iter()
        .filter(|seen| seen.id != own && seen.is_fresh)
        .filter(|seen| seen.life == Life::Lives);
    let mut ahead: Vec<i64> = others.map(|seen| seen.ahead_ms).collect();
    ahead.sort_unstable();
    ahead.get(ahead.len() / 2).copied()
}

/// Returns how far to move host time that is `own_ms` ahead while that of others is `others_ms` ahead. All
/// run by their own monotonic clocks, so a jump of the database's clock shows in all of them alike.
pub(super) fn step(own_ms: i64, others_ms: Option<i64>) -> i64 {
    match others_ms {
        Some(others_ms) if own_ms.abs_diff(others_ms) > APART_MS => {
            STEP_MS * (others_ms - own_ms).signum()
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const OWN: NodeId = NodeId(Uuid::from_u128(1));
    const OTHER: NodeId = NodeId(Uuid::from_u128(2));

    fn seen(beat: i64, life: Life) -> HeartbeatRow {
        HeartbeatRow {
            id: OTHER,
            epoch: 3,
            beat,
            life,
            is_fresh: true,
            ahead_ms: 0,
        }
    }

    /// Reads once per step: the time in seconds, and the beat that is seen then. Returns when the
    /// other node first counted as dead.
    fn died_at(steps: &[(u64, i64)]) -> Option<u64> {
        let mut watch = Watch::default();
        steps.iter().find_map(|(second, beat)| {
            let at = Duration::from_secs(*second);
            let dead = watch.observe((at, at), OWN, &[seen(*beat, Life::Lives)]);
            (!dead.is_empty()).then_some(*second)
        })
    }

    #[test]
    fn a_node_is_dead_after_a_lease_of_watched_silence() {
        let each_second = |beats: fn(u64) -> i64| -> Vec<(u64, i64)> {
            (0..60).map(|second| (second, beats(second))).collect()
        };
        assert_eq!(died_at(&each_second(|_| 7)), Some(10));
        assert_eq!(
            died_at(&each_second(|second| i64::try_from(second).unwrap())),
            None
        );
        assert_eq!(
            died_at(&each_second(|second| (second > 8).into())),
            Some(19)
        );
        // What happened between two reads is not known.
        assert_eq!(
            died_at(&[(0, 7), (3, 7), (20, 7), (23, 7), (26, 7), (29, 7)]),
            None
        );
        let then: Vec<(u64, i64)> = [0, 3, 20, 23, 26, 29, 30].map(|second| (second, 7)).into();
        assert_eq!(died_at(&then), Some(30));
    }

    #[test]
    fn time_counts_from_the_answer_to_the_next_question() {
        let mut watch = Watch::default();
        let mut observe = |sent: u64, answered: u64| {
            let times = (Duration::from_secs(sent), Duration::from_secs(answered));
            !watch
                .observe(times, OWN, &[seen(1, Life::Lives)])
                .is_empty()
        };
        let dead = [(0, 2), (4, 5), (8, 9), (11, 13), (12, 14)]
            .map(|(sent, answered)| observe(sent, answered));
        assert_eq!(dead, [false, false, false, false, true]);
    }

    #[test]
    fn a_node_that_has_left_is_taken_at_once_and_only_once() {
        let mut watch = Watch::default();
        let now = Duration::from_secs(5);
        let left = watch.observe((now, now), OWN, &[seen(1, Life::Left)]);
        assert_eq!(
            left,
            [Dead {
                node: OTHER,
                epoch: 3,
                beat: 1
            }]
        );
        let later = Duration::from_secs(90);
        for at in [now, later] {
            assert_eq!(watch.observe((at, at), OWN, &[seen(1, Life::Taken)]), []);
        }
        let own = HeartbeatRow {
            id: OWN,
            ..seen(1, Life::Left)
        };
        assert_eq!(
            watch.observe((now, now), OWN, &[own]),
            [],
            "a node does not take its own place"
        );
    }

    #[test]
    fn host_time_is_that_of_the_others_and_moves_in_small_steps() {
        let node = |id: u128, ahead_ms, is_fresh| HeartbeatRow {
            id: NodeId(Uuid::from_u128(id)),
            ahead_ms,
            is_fresh,
            ..seen(1, Life::Lives)
        };
        let nodes = [
            node(1, 9_000, true),
            node(2, 40, true),
            node(3, 50, true),
            node(4, -9_000, false),
        ];
        assert_eq!(ahead_of_others(OWN, &nodes), Some(50));
        assert_eq!(ahead_of_others(OWN, &nodes[..1]), None);
        for (own, others, expected) in [
            (0, None, 0),
            (0, Some(20), 0),
            (0, Some(21), 1),
            (3_600_000, Some(0), -1),
            (-100, Some(-100), 0),
        ] {
            assert_eq!(step(own, others), expected, "{own} {others:?}");
        }
    }
}
