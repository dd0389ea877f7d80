//! Starts foreign Hero workers (Python processes without packages, written only from the protocol
//! document) and hosts that send jobs to them.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use host_tests::{Options, Redis, Server, eventually};
use redis::Commands as _;

use crate::hero_serve::WAIT_MAX;

const PROGRAM: &str = include_str!("hero_foreign.py");

/// A running worker; it is killed when this is dropped.
pub(crate) struct Worker(Child);

impl Worker {
    pub(crate) fn start(redis: &Redis, worker_id: &str) -> Self {
        let child = Command::new("python3")
            .args(["-c", PROGRAM, &redis.port().to_string(), worker_id])
            .stdin(Stdio::null())
            .spawn()
            .expect("python3 is missing: install it");
        Self(child)
    }

    /// Waits until the worker has ended by itself.
    pub(crate) fn wait(mut self) {
        eventually("a worker to die", WAIT_MAX, || self.0.try_wait().unwrap());
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a host that sends jobs to a Redis. `more` is appended to its configuration.
pub(crate) fn sender(data: &Path, redis: &Redis, more: &str) -> Server {
    std::fs::create_dir_all(data).unwrap();
    let config = data.join("host.toml");
    let text = format!("[protocol.hero]\nurl = \"{}\"\n{more}", redis.url());
    std::fs::write(&config, text).unwrap();
    let mut options = Options::new(data);
    options.args = ["--cells", "2", "--config"].map(str::to_owned).to_vec();
    options.args.push(config.display().to_string());
    Server::start(&options)
}

/// Waits until a worker has started an attempt of a job with this handler. Returns its id in Redis.
pub(crate) fn started(redis: &Redis, handler: &str) -> String {
    let mut redis = redis.connection();
    eventually(&format!("a start of {handler}"), WAIT_MAX, || {
        let keys: Vec<String> = redis.keys("hero:job:*").unwrap();
        let mut field =
            |key: &String, name: &str| -> Option<String> { redis.hget(key, name).unwrap() };
        keys.into_iter().find(|key| {
            let is = |found: Option<String>, wanted: &str| found.as_deref() == Some(wanted);
            is(field(key, "handler"), handler) && is(field(key, "status"), "started")
        })
    })
}
