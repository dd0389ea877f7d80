//! Clients that close their connection before they have an answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::State;
use host_core::access::Access;
use host_runtime::tasks::Tasks;
use tokio::io::{AsyncWriteExt as _, duplex};
use tokio::sync::Notify;

use super::fixture::{Counted, SOON, served, serving};
use crate::peer::Peer;
use crate::problem;
use crate::route::{Group, Route};
use crate::router::router;
use crate::serve::{Served, connection};

/// A handler that waits for a signal, and reports whether it was completed or dropped.
#[derive(Default)]
struct Work {
    begun: Notify,
    may_end: Notify,
    over: Notify,
    is_done: AtomicBool,
}

struct Over<'a>(&'a Work);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.over.notify_one();
    }
}

async fn work(State(work): State<Arc<Work>>) -> &'static str {
    let _over = Over(&work);
    work.begun.notify_one();
    work.may_end.notified().await;
    work.is_done.store(true, Ordering::Relaxed);
    "done"
}

/// Sends a request, disconnects once its handler has begun, and returns whether the handler completed.
async fn ends(method: &str, route: Route<Arc<Work>>) -> bool {
    let (tasks, metrics) = (Tasks::default(), Arc::<Counted>::default());
    let at_work = Arc::<Work>::default();
    let group = Group {
        prefix: "/api",
        render: problem::render,
        routes: vec![route.with_state(Arc::clone(&at_work))],
    };
    let served = Served {
        router: router(vec![group], &serving(&metrics), problem::render),
        ..served(&metrics)
    };
    let (mut client, theirs) = duplex(64 << 10);
    let stopping = tasks.stopping().clone();
    let served = connection((theirs, Peer::default()), served, stopping, None);
    let request = format!(
        "{method} /api/work HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\r\n"
    );
    let leaving = async {
        client.write_all(request.as_bytes()).await.unwrap();
        at_work.begun.notified().await;
        drop(client);
    };
    tokio::join!(served, leaving);
    at_work.may_end.notify_one();
    at_work.over.notified().await;
    at_work.is_done.load(Ordering::Relaxed)
}

#[tokio::test]
async fn what_changes_something_goes_on_without_its_client() {
    let all = async {
        assert!(ends("POST", Route::post(Access::Open, "/api/work", work)).await);
        assert!(
            ends(
                "POST",
                Route::post(Access::Open, "/api/work", work).long_running()
            )
            .await
        );
        assert!(
            !ends(
                "POST",
                Route::post(Access::Open, "/api/work", work).ends_with_client()
            )
            .await
        );
        assert!(!ends("GET", Route::get(Access::Open, "/api/work", work)).await);
        assert!(
            !ends(
                "GET",
                Route::get(Access::Open, "/api/work", work).long_running()
            )
            .await
        );
    };
    tokio::time::timeout(SOON, all).await.unwrap();
}
