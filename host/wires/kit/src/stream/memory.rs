//! The memory of arriving frames. Small frames are free; large ones of all connections share a budget, so
//! that many connections cannot announce more than there is.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Frames of up to this size use nothing of the budget, in bytes.
const SMALL_BYTES: usize = 64 << 10;

/// One connection's share of the budget.
pub(super) struct Memory {
    budget: Arc<Semaphore>,
    held: Option<OwnedSemaphorePermit>,
}

impl Memory {
    pub(super) fn of(budget: &Arc<Semaphore>) -> Self {
        Self {
            budget: Arc::clone(budget),
            held: None,
        }
    }

    /// Waits until there is memory for a frame of this many bytes. Releases that of the previous frame, if
    /// this one is small. Cancel safe.
    pub(super) async fn cover(&mut self, bytes: usize) {
        if bytes <= SMALL_BYTES {
            self.held = None;
            return;
        }
        let held = self.held.as_ref();
        let has = held.map_or(0, OwnedSemaphorePermit::num_permits);
        let wanted = bytes.div_ceil(1 << 10).saturating_sub(has);
        let missing = u32::try_from(wanted).unwrap_or(u32::MAX);
        if missing == 0 {
            return;
        }
        // The budget is never closed.
        if let Ok(more) = Arc::clone(&self.budget).acquire_many_owned(missing).await {
            match &mut self.held {
                Some(held) => held.merge(more),
                None => self.held = Some(more),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn large_frames_wait_for_each_other_and_small_ones_do_not() {
        let budget = Arc::new(Semaphore::new(100));
        let [mut first, mut second, mut small] = [(); 3].map(|()| Memory::of(&budget));
        first.cover(80 << 10).now_or_never().unwrap();
        assert!(second.cover(70 << 10).now_or_never().is_none());
        small.cover(SMALL_BYTES).now_or_never().unwrap();
        first
            .cover(90 << 10)
            .now_or_never()
            .expect("it only lacks 10");
        assert_eq!(budget.available_permits(), 10);
        first.cover(4).now_or_never().unwrap();
        second.cover(70 << 10).now_or_never().unwrap();
        drop(second);
        assert_eq!(budget.available_permits(), 100);
    }
}
