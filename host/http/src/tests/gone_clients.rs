//! Clients that close their connection, or their side of it, before they have an answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Extension;
use axum::extract::State;
use host_core::access::Access;
use host_runtime::tasks::Tasks;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use super::fixture::{Counted, SOON, admitted, served, serving};
use crate::peer::{ClientClosed, Peer};
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

struct EndSignal<'a>(&'a Work);

impl Drop for EndSignal<'_> {
    fn drop(&mut self) {
        self.0.over.notify_one();
    }
}

async fn work(State(work): State<Arc<Work>>) -> &'static str {
    let _guard = EndSignal(&work);
    work.begun.notify_one();
    work.may_end.notified().await;
    work.is_done.store(true, Ordering::Relaxed);
    "done"
}

/// Waits until its client has closed its side.
async fn wait_for_close(
    State(work): State<Arc<Work>>,
    Extension(ClientClosed(closed)): Extension<ClientClosed>,
) -> &'static str {
    work.begun.notify_one();
    closed.cancelled().await;
    "seen"
}

/// Serves `/api/work` on one connection. Returns its other end.
async fn open(route: Route<Arc<Work>>, tasks: &Tasks) -> (TcpStream, Arc<Work>) {
    let metrics = Arc::<Counted>::default();
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
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap());
    let (client, theirs) = tokio::join!(client, listener.accept());
    let (stream, peer) = (theirs.unwrap().0, Peer::default());
    let stopping = tasks.stopping().clone();
    tasks.spawn(connection(stream, peer, served, stopping, admitted()));
    (client.unwrap(), at_work)
}

/// Sends a request with this body, resets the connection once its handler has begun, and returns whether the handler
/// completed.
async fn ends(method: &str, route: Route<Arc<Work>>) -> bool {
    let tasks = Tasks::default();
    let (mut client, at_work) = open(route, &tasks).await;
    let request = format!(
        "{method} /api/work HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\r\n"
    );
    client.write_all(request.as_bytes()).await.unwrap();
    at_work.begun.notified().await;
    client.set_zero_linger().unwrap();
    drop(client);
    // The only task ends with its connection.
    tasks.join().await;
    at_work.may_end.notify_one();
    at_work.over.notified().await;
    at_work.is_done.load(Ordering::Relaxed)
}

#[tokio::test]
async fn what_changes_something_goes_on_without_its_client() {
    let post = || Route::post(Access::Open, "/api/work", work);
    let get = || Route::get(Access::Open, "/api/work", work);
    let all = async {
        assert!(ends("POST", post()).await);
        assert!(ends("POST", post().long_running()).await);
        assert!(!ends("POST", post().ends_with_client()).await);
        assert!(!ends("GET", get()).await);
        assert!(!ends("GET", get().long_running()).await);
    };
    tokio::time::timeout(SOON, all).await.unwrap();
}

/// Sends a request with this body, closes the sending half once its handler has begun, and returns the answer.
async fn ask_and_close(method: &str, body: &str, route: Route<Arc<Work>>) -> String {
    let tasks = Tasks::default();
    let (mut client, at_work) = open(route, &tasks).await;
    let request = format!(
        "{method} /api/work HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{body}"
    );
    client.write_all(request.as_bytes()).await.unwrap();
    at_work.begun.notified().await;
    client.shutdown().await.unwrap();
    at_work.may_end.notify_one();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    tasks.join().await;
    answer
}

#[tokio::test]
async fn a_complete_request_whose_client_closes_its_side_is_answered() {
    let with_length = "content-length: 2\r\n\r\n{}";
    let chunked = "transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n";
    let all = async {
        for (method, body) in [
            ("GET", "\r\n"),
            ("POST", "content-length: 0\r\n\r\n"),
            ("POST", with_length),
            ("POST", chunked),
        ] {
            for is_long in [false, true] {
                for ends_with_client in [false, true] {
                    let mut route = match method {
                        "GET" => Route::get(Access::Open, "/api/work", work),
                        _ => Route::post(Access::Open, "/api/work", work),
                    };
                    route.is_long_running = is_long;
                    route.ends_with_client = ends_with_client;
                    let answer = ask_and_close(method, body, route).await;
                    let is_whole =
                        answer.starts_with("HTTP/1.1 200") && answer.ends_with("\r\n\r\ndone");
                    assert!(
                        is_whole,
                        "{method} {body:?} {is_long} {ends_with_client}: {answer}"
                    );
                }
            }
        }
    };
    tokio::time::timeout(SOON, all).await.unwrap();
}

#[tokio::test]
async fn a_handler_learns_that_its_client_has_closed_its_side() {
    let route = Route::post(Access::Open, "/api/work", wait_for_close).long_running();
    let asking = ask_and_close("POST", "content-length: 2\r\n\r\n{}", route);
    let answer = tokio::time::timeout(SOON, asking).await.unwrap();
    assert!(answer.ends_with("\r\n\r\nseen"), "{answer}");
}

#[tokio::test]
async fn what_a_client_sends_before_it_closes_its_side_is_answered_in_order() {
    let all = async {
        let tasks = Tasks::default();
        let (mut client, at_work) = open(Route::get(Access::Open, "/api/work", work), &tasks).await;
        let request = "GET /api/work HTTP/1.1\r\nhost: localhost\r\n\r\n";
        client.write_all(request.as_bytes()).await.unwrap();
        at_work.begun.notified().await;
        client.write_all(request.as_bytes()).await.unwrap();
        client.shutdown().await.unwrap();
        at_work.may_end.notify_one();
        at_work.begun.notified().await;
        at_work.may_end.notify_one();
        let mut answers = String::new();
        client.read_to_string(&mut answers).await.unwrap();
        assert_eq!(answers.matches("\r\n\r\ndone").count(), 2, "{answers}");
    };
    tokio::time::timeout(SOON, all).await.unwrap();
}
