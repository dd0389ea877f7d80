//! Whether the database does not answer: requests are then refused immediately, and those that wait are answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use host_engine::Others;
use host_runtime::clock::Clock;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// How often to check the loop's turn, and how long a turn may take before the database is checked.
const CHECK_EVERY: Duration = Duration::from_millis(200);
const TURN_MAX: Duration = Duration::from_millis(500);

/// How long the database may take to answer a question then.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// How long the loop may take to say that it has given a batch up.
pub(crate) const GIVEN_UP: Duration = Duration::from_millis(250);

// What was not sent to a database that does not answer is refused within two seconds.
const _: () = assert!(
    CHECK_EVERY.as_millis() + TURN_MAX.as_millis() + ANSWER_MAX.as_millis() + GIVEN_UP.as_millis()
        < 2_000
);

/// What is known of the loop's turn and of the database.
#[derive(Debug, Default)]
pub(crate) struct Away {
    is_away: watch::Sender<bool>,
    /// The uptime at which the turn began, in milliseconds; 0 while there is none.
    turn_began: AtomicU64,
}

impl Away {
    /// Returns whether the database does not answer.
    pub(crate) fn is_away(&self) -> bool {
        *self.is_away.borrow()
    }

    /// Waits until it does not answer. Cancel safe.
    pub(crate) async fn away(&self) {
        let mut is_away = self.is_away.subscribe();
        if is_away.wait_for(|is_away| *is_away).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Records whether it answers. Returns whether that is new.
    pub(crate) fn set(&self, is_away: bool) -> bool {
        self.is_away
            .send_if_modified(|was| std::mem::replace(was, is_away) != is_away)
    }

    /// Records that the loop's turn begins.
    pub(crate) fn turn_begins(&self, uptime: Duration) {
        let uptime_ms = u64::try_from(uptime.as_millis()).unwrap_or(u64::MAX);
        self.turn_began.store(uptime_ms.max(1), Ordering::Relaxed);
    }

    /// Records that it is over.
    pub(crate) fn turn_is_over(&self) {
        self.turn_began.store(0, Ordering::Relaxed);
    }

    /// Returns whether a turn has taken suspiciously long.
    fn is_stuck(&self, uptime: Duration) -> bool {
        let began = self.turn_began.load(Ordering::Relaxed);
        began > 0 && uptime.saturating_sub(Duration::from_millis(began)) >= TURN_MAX
    }

    /// Notices that the database does not answer while the loop waits for it, and gives up what was not sent. A slow
    /// turn alone proves nothing: the database decides.
    pub(crate) async fn watch(&self, clock: Clock, others: Arc<dyn Others>) {
        loop {
            sleep(CHECK_EVERY).await;
            if self.is_away() || !self.is_stuck(clock.uptime()) {
                continue;
            }
            let answer = timeout(ANSWER_MAX, others.change_counters()).await;
            if !matches!(answer, Ok(Ok(_))) && self.is_stuck(clock.uptime()) {
                tracing::error!("the database does not answer; requests are refused until it does");
                self.set(true);
                others.give_up();
            }
        }
    }
}
