//! How much of a backlog this node takes while other nodes live: first what its cells can begin immediately, and more
//! whenever the others had a chance. Pure.
//!
//! A claim uses up turns. They come back when another node claims, when an attempt ends here, and when nothing is left;
//! so nodes that are free take turns, and a job that ends soon makes room for two. If the others take nothing for a
//! whole heartbeat although something is left, they leave it to this node.

/// How many heartbeats in a row without a claim of another node show that the others leave the backlog to this one. The
/// first may follow it immediately.
const BEATS: u8 = 2;

#[derive(Debug)]
pub(super) struct Share {
    /// How many jobs cells can begin immediately: one for each cell.
    cells: usize,
    /// How many jobs its cells have room for in all.
    slots: usize,
    /// Whether other nodes live.
    has_others: bool,
    /// How many more jobs may be claimed.
    turns: usize,
    /// How many heartbeats there were since others had claimed something, or since nothing was left.
    beats: u8,
}

impl Share {
    /// Makes the share of a node with this many cells, with room for this many jobs.
    pub(super) fn new(cells: usize, slots: usize, has_others: bool) -> Self {
        Self {
            cells,
            slots,
            has_others,
            turns: cells,
            beats: 0,
        }
    }

    /// Returns how many jobs may be claimed now.
    pub(super) fn left(&self) -> usize {
        if self.has_others && self.beats < BEATS {
            self.turns
        } else {
            usize::MAX
        }
    }

    /// Records that this node has claimed jobs.
    pub(super) fn record_claims(&mut self, jobs: usize) {
        self.turns = self.turns.saturating_sub(jobs);
    }

    /// Records that an attempt has ended here.
    pub(super) fn record_end(&mut self) {
        self.turns = self.slots.min(self.turns.saturating_add(2));
    }

    /// Records that another node has claimed jobs, or that no job is left.
    pub(super) fn record_chance(&mut self) {
        self.turns = self.turns.max(self.cells);
        self.beats = 0;
    }

    /// Records a heartbeat, which shows whether other nodes live. `is_left` says whether jobs are left.
    pub(super) fn record_beat(&mut self, has_others: bool, is_left: bool) {
        self.has_others = has_others;
        self.beats = if is_left {
            self.beats.saturating_add(1)
        } else {
            0
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CELLS: usize = 2;
    const SLOTS: usize = 128;

    /// Two nodes with a backlog of long jobs at the first: what each has claimed in the end.
    fn divide(mut backlog: usize) -> [usize; 2] {
        let mut shares = [
            Share::new(CELLS, SLOTS, true),
            Share::new(CELLS, SLOTS, true),
        ];
        let mut claimed = [0, 0];
        while backlog > 0 {
            for node in 0..2 {
                let jobs = shares[node].left().min(backlog);
                assert!(jobs > 0, "the other has just claimed");
                backlog -= jobs;
                claimed[node] += jobs;
                shares[node].record_claims(jobs);
                shares[1 - node].record_chance();
                if backlog == 0 {
                    break;
                }
            }
        }
        claimed
    }

    #[test]
    fn nodes_that_are_free_take_turns() {
        assert_eq!(divide(40), [20, 20]);
        assert_eq!(divide(13), [7, 6]);
    }

    #[test]
    fn a_node_takes_what_the_others_leave() {
        let mut share = Share::new(CELLS, SLOTS, true);
        (0..9).for_each(|_| share.record_beat(true, false));
        assert_eq!(share.left(), CELLS, "nothing was left to take");
        share.record_claims(CELLS);
        share.record_beat(true, true);
        assert_eq!(share.left(), 0, "the others may not have heard of it");
        share.record_beat(true, true);
        assert_eq!(share.left(), usize::MAX);
        share.record_chance();
        assert_eq!(share.left(), CELLS);
    }

    #[test]
    fn a_node_that_has_no_others_takes_everything() {
        let mut share = Share::new(CELLS, SLOTS, false);
        share.record_claims(SLOTS);
        assert_eq!(share.left(), usize::MAX);
        share.record_beat(true, true);
        assert_eq!(share.left(), 0);
        share.record_beat(false, true);
        assert_eq!(share.left(), usize::MAX);
    }

    #[test]
    fn short_jobs_fill_all_slots_soon() {
        let mut share = Share::new(CELLS, SLOTS, true);
        let (mut running, mut rounds) = (0, 0);
        while running < SLOTS {
            running = share.left().min(SLOTS);
            share.record_claims(running);
            (0..running).for_each(|_| share.record_end());
            rounds += 1;
        }
        assert_eq!(rounds, 7);
    }
}
