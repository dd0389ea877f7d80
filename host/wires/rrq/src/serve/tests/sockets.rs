//! The worker role over loopback, in real time.

use std::net::SocketAddr;
use std::time::Duration;

use host_core::port::Stop;
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::super::{bind, read_address};
use super::fixture::{Client, Host, cancel};

async fn host() -> (Host, SocketAddr) {
    let listener = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = listener.local_addr().unwrap();
    (Host::start(listener), address)
}

async fn connect(address: SocketAddr) -> Client<TcpStream> {
    Client(TcpStream::connect(address).await.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_connections_are_served_at_once() {
    let (host, address) = host().await;
    let mut clients = Vec::new();
    for _ in 0..20 {
        clients.push(connect(address).await);
    }
    for round in 0..10 {
        for (n, client) in clients.iter_mut().enumerate() {
            for part in 0..3 {
                let id = format!("{n}.{round}.{part}");
                client.send(&host.request(&id, "echo", 10_000)).await;
            }
        }
        for (n, client) in clients.iter_mut().enumerate() {
            for part in 0..3 {
                let answer = client.answer().await;
                assert_eq!(answer["result"]["id"], format!("{n}.{round}.{part}"));
            }
        }
    }
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancels_come_on_any_connection_and_eof_cancels_all() {
    let (host, address) = host().await;
    let mut work = connect(address).await;
    for id in ["a", "b", "c"] {
        work.send(&host.request(id, "hang", 60_000)).await;
    }
    host.handlers.until_running(3).await;
    let mut other = connect(address).await;
    other.send(&cancel("b", false)).await;
    drop(other);
    let answer = work.answer().await;
    assert_eq!(
        (&answer["request_id"], &answer["error"]["type"]),
        (&"b".into(), &"cancelled".into())
    );
    drop(work);
    host.handlers.until_running(0).await;
    let stops = host.handlers.stops.borrow().clone();
    assert_eq!(stops[0].1, 500);
    assert_eq!(
        (stops[1].2, stops[2].2),
        (Stop::Disconnected, Stop::Disconnected)
    );
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_frame_is_answered_and_ends_its_connection_only() {
    let (host, address) = host().await;
    let mut good = connect(address).await;
    good.send(&host.request("good", "hang", 60_000)).await;
    host.handlers.until_running(1).await;
    let mut web = connect(address).await;
    let header = "x".repeat(30_000);
    let text = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {header}\r\n\r\n");
    web.0.write_all(text.as_bytes()).await.unwrap();
    let answer = web.answer().await;
    assert_eq!(answer["error"]["code"], "E_FRAME_TOO_LARGE");
    assert_eq!(web.next().await, None);
    let mut cut = connect(address).await;
    cut.0.write_all(b"\0\0\0\x09{").await.unwrap();
    drop(cut);
    host.refusals.until("E_FRAME_TRUNCATED").await;
    good.send(&cancel("good", true)).await;
    assert_eq!(good.answer().await["error"]["type"], "cancelled");
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_executor_says_is_answered() {
    let (host, address) = host().await;
    let mut client = connect(address).await;
    for (handler, kind) in [
        ("busy", "runner_busy"),
        ("lost", "cell_lost"),
        ("nope", "handler_not_found"),
    ] {
        client.send(&host.request(handler, handler, 10_000)).await;
        assert_eq!(client.answer().await["error"]["type"], kind);
    }
    let mut large = host.request("large", "echo", 10_000);
    large["payload"]["params"]["pad"] = "x".repeat(5 << 20).into();
    client.send(&large).await;
    assert_eq!(client.answer().await["result"], large["payload"]["params"]);
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_answers_everything_and_is_quick() {
    let (host, address) = host().await;
    let mut client = connect(address).await;
    for id in ["a", "b"] {
        client.send(&host.request(id, "hang", 60_000)).await;
    }
    client.send(&host.request("c", "deaf", 60_000)).await;
    host.handlers.until_running(3).await;
    let took = host.stop().await;
    assert!(took < Duration::from_secs(10), "{took:?}");
    let mut kinds = Vec::new();
    while let Some(answer) = client.next().await {
        kinds.push(answer["error"]["type"].clone());
    }
    assert_eq!(kinds, vec![Value::from("runner_stopping"); 3]);
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_executor_that_panics_silences_no_other_connection() {
    let (host, address) = host().await;
    let mut good = connect(address).await;
    good.send(&host.request("a", "echo", 10_000)).await;
    good.answer().await;
    let mut bad = connect(address).await;
    bad.send(&host.request("b", "panic", 10_000)).await;
    while bad.next().await.is_some() {}
    good.send(&host.request("c", "echo", 10_000)).await;
    assert_eq!(good.answer().await["status"], "success");
    host.stop().await;
}

#[tokio::test]
async fn an_address_is_bound_once() {
    let address = read_address("localhost:0").unwrap();
    let first = bind(address).await.unwrap();
    let taken = bind(first.local_addr().unwrap()).await.unwrap_err();
    assert!(taken.to_string().contains("choose another port"), "{taken}");
    for text in [
        "",
        "7701",
        "localhost",
        "localhost:99999",
        "example.org:1",
        "127.0.0.1:x",
    ] {
        assert_eq!(read_address(text), None, "{text}");
    }
}
