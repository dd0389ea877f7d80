//! Time limits, with the clock paused: nothing here really waits.

use std::time::Duration;

use host_core::port::Stop;
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::time::Instant;

use super::fixture::{Host, Memory, connect};

#[tokio::test(start_paused = true)]
async fn a_slow_frame_ends_its_connection_and_an_idle_one_stays() {
    let (listener, network) = Memory::new();
    let host = Host::start(listener);
    let mut idle = connect(&network, 4_096).await;
    // The bytes that are sent, and when the connection ends.
    let cases: [(&[u8], u64); 4] = [
        (b"\0", 10),
        (b"\0\0\0", 10),
        (b"\0\0\0\x05", 30),
        (b"\0\0\0\x05abcd", 30),
    ];
    for (sent, ends_after_s) in cases {
        let begun = Instant::now();
        let mut slow = connect(&network, 4_096).await;
        slow.0.write_all(sent).await.unwrap();
        assert_eq!(slow.next().await, None);
        let elapsed = begun.elapsed();
        let expected = Duration::from_secs(ends_after_s);
        assert!(
            elapsed >= expected && elapsed < expected + Duration::from_secs(1),
            "{elapsed:?}"
        );
        host.refusals.until("E_FRAME_TIMEOUT").await;
    }
    tokio::time::sleep(Duration::from_hours(23)).await;
    idle.send(&host.request("r", "echo", 1_000)).await;
    assert_eq!(idle.answer().await["status"], "success");
    tokio::time::sleep(Duration::from_hours(23)).await;
    idle.send(&host.request("r", "echo", 1_000)).await;
    assert_eq!(idle.answer().await["status"], "success");
    tokio::time::sleep(Duration::from_hours(25)).await;
    assert_eq!(idle.next().await, None, "a day without a request");
    host.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_frame_byte_by_byte_passes_while_it_is_in_time() {
    let (listener, network) = Memory::new();
    let host = Host::start(listener);
    let mut client = connect(&network, 4_096).await;
    let payload = host.request("r", "echo", 600_000).to_string();
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    for byte in [&length, payload.as_bytes()].concat() {
        client.0.write_all(&[byte]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(client.answer().await["status"], "success");
    host.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deadline_is_answered_before_it_and_the_guest_stopped() {
    let (listener, network) = Memory::new();
    let host = Host::start(listener);
    let mut client = connect(&network, 4_096).await;
    for (id, handler) in [("a", "hang"), ("b", "deaf")] {
        let begun = Instant::now();
        client.send(&host.request(id, handler, 10_000)).await;
        let answer = client.answer().await;
        assert_eq!(answer["status"], "timeout");
        let elapsed = begun.elapsed().as_millis();
        assert!((9_899..9_990).contains(&elapsed), "{elapsed}");
    }
    let stops = host.handlers.stops.borrow().clone();
    assert!(
        stops
            .iter()
            .all(|(_, grace, why)| (*grace, *why) == (0, Stop::Deadline))
    );
    assert_eq!(stops.len(), 2);
    host.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_reads_nothing_is_not_read_and_then_given_up() {
    let (listener, network) = Memory::new();
    let host = Host::start(listener);
    let mut deaf = connect(&network, 256).await;
    let mut hanging = host.request("h", "hang", 3_600_000);
    hanging["payload"]["params"] = Value::Object(serde_json::Map::new());
    deaf.send(&hanging).await;
    host.handlers.until_running(1).await;
    let mut request = host.request("r", "echo", 3_600_000);
    request["payload"]["params"]["pad"] = "x".repeat(100_000).into();
    let mut sent = 0;
    let sending = async {
        loop {
            deaf.send(&request).await;
            sent += 1;
        }
    };
    let flood = tokio::time::timeout(Duration::from_secs(20), sending).await;
    assert!(flood.is_err());
    assert!(
        (5..30).contains(&sent),
        "{sent} of 100 kB each for a megabyte of answers"
    );
    host.handlers.until_running(0).await;
    let stops = host.handlers.stops.borrow().clone();
    assert_eq!(stops[0].2, Stop::Disconnected);
    host.stop().await;
}

#[tokio::test(start_paused = true)]
async fn connections_cannot_announce_more_than_there_is_memory() {
    const LARGE: u32 = 16 << 20;
    let (listener, network) = Memory::new();
    let host = Host::start(listener);
    let part = vec![b' '; 200 << 10];
    let mut announcing = Vec::new();
    for _ in 0..20 {
        let mut large = connect(&network, 256 << 10).await;
        large.0.write_all(&LARGE.to_be_bytes()).await.unwrap();
        large.0.write_all(&part).await.unwrap();
        announcing.push(large);
    }
    // Small frames pass.
    let mut small = connect(&network, 4_096).await;
    small.send(&host.request("r", "echo", 1_000)).await;
    assert_eq!(small.answer().await["status"], "success");
    // The budget has room for 16. The others are not read until their time is over.
    let mut unread = 0;
    for large in &mut announcing {
        let more = large.0.write_all(&part);
        unread += usize::from(
            tokio::time::timeout(Duration::from_secs(1), more)
                .await
                .is_err(),
        );
    }
    assert_eq!(unread, 5, "16 MiB and its length are more than a 16th");
    tokio::time::sleep(Duration::from_secs(31)).await;
    let mut request = host.request("large", "echo", 1_000);
    request["payload"]["params"]["pad"] = "x".repeat(1 << 20).into();
    small.send(&request).await;
    assert_eq!(
        small.answer().await["status"],
        "success",
        "it is free again"
    );
    host.stop().await;
}
