//! Addresses of a Redis: a Unix socket, Sentinels that promote another master, but not a Cluster.

use host_tests::{Redis, Sentinel, eventually};
use tempfile::TempDir;

use crate::hero_serve::{Client, Fixture, WAIT_MAX, doctor, log};

const MEMORY: [&str; 4] = ["--save", "", "--appendonly", "no"];

#[test]
fn jobs_run_over_a_unix_socket() {
    let folder = TempDir::new().unwrap();
    let socket = folder.path().join("redis.sock").display().to_string();
    let args = [&MEMORY[..], &["--unixsocket", socket.as_str()]].concat();
    let fixture = Fixture::new(Redis::with(&args));
    let host = fixture.host_at("data", &format!("redis+unix://{socket}?db=1"));
    let mut client = fixture.client();
    let _: String = client.ask(&["SELECT", "1"]);
    client.submit(1, &[("script", "40 + 2")]);
    assert_eq!(client.reply(1), "42");
    assert_eq!(host.stop(), Some(0));
    let (_, output) = doctor(&[("HOST_HERO_URL", "redis+unix:///not/there")]);
    assert!(output.contains("/not/there"), "{output}");
}

#[test]
fn a_host_follows_the_master_that_the_sentinels_name() {
    let mut fixture = Fixture::new(Redis::start());
    let port = fixture.redis.port().to_string();
    let args = [&MEMORY[..], &["--replicaof", "127.0.0.1", port.as_str()]].concat();
    let replica = Redis::with(&args);
    let sentinel = Sentinel::start(fixture.redis.port(), "main");
    eventually("the Sentinel to see the replica", WAIT_MAX, || {
        (sentinel.replicas("main") == 1).then_some(())
    });
    // The first address is not a Sentinel.
    let sentinels = format!("127.0.0.1:1,127.0.0.1:{}", sentinel.port());
    let host = fixture.host_at("data", &format!("redis-sentinel://{sentinels}/main"));
    let mut client = fixture.client();
    client.submit(1, &[("script", "1")]);
    assert_eq!(client.reply(1), "1");
    fixture.redis.kill();
    // The Sentinel closes the replica's connections when it makes it the master.
    let mut client = eventually("the replica to become the master", WAIT_MAX, || {
        let mut client = Client(replica.connect().ok()?);
        let role: Vec<redis::Value> = redis::cmd("ROLE").query(&mut client.0).ok()?;
        (role[0] == redis::Value::BulkString(b"master".to_vec())).then_some(client)
    });
    client.submit(2, &[("script", "2")]);
    assert_eq!(client.reply(2), "2");
    assert_eq!(host.stop(), Some(0));
    let url = format!("redis-sentinel://127.0.0.1:{}/other", sentinel.port());
    let (_, output) = doctor(&[("HOST_HERO_URL", &url)]);
    assert!(output.contains("knows no master \"other\""), "{output}");
    let url = format!("redis://127.0.0.1:{}", sentinel.port());
    let (_, output) = doctor(&[("HOST_HERO_URL", &url)]);
    assert!(output.contains("write redis-sentinel://"), "{output}");
}

#[test]
fn a_node_of_a_cluster_is_refused() {
    let fixture = Fixture::new(Redis::of_cluster(&MEMORY));
    let url = format!("redis://127.0.0.1:{}", fixture.redis.port());
    let (status, output) = doctor(&[("HOST_HERO_URL", &url)]);
    assert_eq!(status, "warn", "{output}");
    assert!(output.contains("Redis Cluster"), "{output}");
    let host = fixture.host_at("data", &url);
    eventually("the refusal", WAIT_MAX, || {
        log(&fixture.path("data"))
            .contains("Redis Cluster")
            .then_some(())
    });
    assert_eq!(host.stop(), Some(0));
}
