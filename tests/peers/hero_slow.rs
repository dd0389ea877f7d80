//! A worker whose link to Redis is slow.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use host_tests::{HeroWorker, Redis, eventually};

use crate::hero_serve::{Fixture, WAIT_MAX, id};

/// The bandwidth of the link to Redis, in bytes per second, over all connections.
const BYTES_PER_SECOND: usize = 1 << 20;

/// How many bytes are forwarded at a time.
const PIECE_BYTES: usize = 8 << 10;

/// A proxy in front of a Redis.
struct SlowLink {
    address: SocketAddr,
    carried: Arc<AtomicUsize>,
}

impl SlowLink {
    fn to(redis: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let carried = Arc::<AtomicUsize>::default();
        let all = Arc::clone(&carried);
        let start = Instant::now();
        thread::spawn(move || {
            for near in listener.incoming() {
                let Ok(near) = near else { return };
                let far = TcpStream::connect(redis).unwrap();
                let back = (far.try_clone().unwrap(), near.try_clone().unwrap());
                let all = Arc::clone(&all);
                thread::spawn(move || carry(near, far, |bytes| pace(start, &all, bytes)));
                thread::spawn(move || carry(back.0, back.1, |_| {}));
            }
        });
        Self { address, carried }
    }
}

/// Waits until the link may have carried these bytes too.
fn pace(start: Instant, all: &AtomicUsize, bytes: usize) {
    let carried = all.fetch_add(bytes, Ordering::SeqCst) + bytes;
    let millis = u64::try_from(carried * 1_000 / BYTES_PER_SECOND).unwrap();
    while let Some(left) =
        (start + Duration::from_millis(millis)).checked_duration_since(Instant::now())
    {
        thread::park_timeout(left);
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, pace: impl Fn(usize)) {
    let mut piece = vec![0; PIECE_BYTES];
    while let Ok(bytes) = from.read(&mut piece) {
        if bytes == 0 {
            break;
        }
        pace(bytes);
        if to.write_all(&piece[..bytes]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

/// Sixteen outputs of 1 MiB are more than the link carries in 5 s, and so is each pipeline of them.
#[test]
fn large_outputs_arrive_once_over_a_slow_link() {
    const JOBS: u32 = 16;
    let fixture = Fixture::new(Redis::start());
    let mut client = fixture.client();
    let link = SlowLink::to(([127, 0, 0, 1], fixture.redis.port()).into());
    let script = r#"let s = ""; s.pad(1000000, "x"); s"#;
    for n in 1..=JOBS {
        client.submit(n, &[("script", script), ("script_type", "rhai")]);
    }
    let url = format!("redis://{}", link.address);
    let handlers = fixture.path("handlers");
    let worker = HeroWorker::start(&fixture.path(""), "slow", &handlers, &url, &["w1"]);
    for n in 1..=JOBS {
        eventually("the job to end", WAIT_MAX, || {
            (client.field(n, "status") == "finished").then_some(())
        });
        assert_eq!(
            client.field(n, "output").len(),
            1_000_000,
            "{}",
            worker.log()
        );
        let replies: usize = client.ask(&["LLEN", &format!("hero:reply:{}", id(n))]);
        assert_eq!(replies, 1);
    }
    let carried = link.carried.load(Ordering::SeqCst);
    assert!(carried < 18_000_000, "{carried} bytes went out");
}

#[test]
fn an_output_of_almost_16_mib_arrives_once_over_a_slow_link() {
    const BYTES: usize = 16_700_000;
    let fixture = Fixture::new(Redis::start());
    let handlers = fixture.path("handlers");
    let manifest = "[defaults]\ntimeout_seconds = 3600\nresult_kib = 16384\nmemory_mib = 512\n";
    std::fs::write(handlers.join("hero-rhai.toml"), manifest).unwrap();
    let mut client = fixture.client();
    let link = SlowLink::to(([127, 0, 0, 1], fixture.redis.port()).into());
    let script = format!(r#"let s = ""; s.pad({BYTES}, "x"); s"#);
    client.submit(1, &[("script", &script), ("script_type", "rhai")]);
    // Others run and are answered.
    for n in 2..=5 {
        client.submit(n, &[("script", "40 + 2")]);
    }
    let url = format!("redis://{}", link.address);
    let worker = HeroWorker::start(&fixture.path(""), "slow", &handlers, &url, &["w1"]);
    for n in (1..=5).rev() {
        eventually("the job to end", WAIT_MAX, || {
            (client.field(n, "status") == "finished").then_some(())
        });
        assert_eq!(client.replies(n), 1, "{n}: {}", worker.log());
    }
    assert_eq!(client.field(1, "output").len(), BYTES);
    let carried = link.carried.load(Ordering::SeqCst);
    assert!(carried < BYTES + 1_000_000, "{carried} bytes went out");
}
