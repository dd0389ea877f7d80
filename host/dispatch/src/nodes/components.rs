//! Loads what other nodes deploy, apart from everything else that this node follows: compiling a component may
//! take minutes.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use host_core::time::Time;
use host_runtime::backoff::Backoff;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::Dispatch;

/// The pauses before what could not be loaded is tried again: from a minute to an hour.
const BACKOFF: Backoff = Backoff::new(60_000, 3_600_000);

/// What became of the components that are deployed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncOutcome {
    /// All of them run here, or never will.
    All,
    /// Some may run here later.
    Some,
    /// They could not be read.
    Nothing,
}

/// Called when other revisions of components may be current.
pub type OnComponents = Arc<dyn Fn() -> BoxFuture<'static, SyncOutcome> + Send + Sync>;

/// What a read of the store showed.
#[derive(Clone)]
pub(super) struct StoreView {
    /// When it began.
    pub(super) at: Time,
    /// Differs if other revisions are current.
    pub(super) components: String,
    pub(super) has_others: bool,
}

/// Handles what reads of the store show, as long as it is polled.
pub(super) async fn sync(
    mut views: watch::Receiver<Option<StoreView>>,
    on_components: OnComponents,
    dispatch: Dispatch,
) {
    let mut known: Option<String> = None;
    let (mut backoff, mut again): (Backoff, Option<Instant>) = (BACKOFF, None);
    while views.changed().await.is_ok() {
        let Some(view) = views.borrow_and_update().clone() else {
            continue;
        };
        // At first, something may have changed since the host read it.
        let is_new = known.as_ref() != Some(&view.components);
        if is_new {
            backoff.reset();
        }
        let is_due = again.is_some_and(|again| Instant::now() >= again);
        if is_new || is_due {
            match on_components().await {
                SyncOutcome::Nothing => continue,
                SyncOutcome::All => again = None,
                SyncOutcome::Some => again = Some(Instant::now() + backoff.next_wait()),
            }
            known = Some(view.components);
        }
        dispatch.shared().deploy_sync.done(view.at, view.has_others);
    }
}
