//! A Delta CI runner that a test drives step by step, and hosts with a pool for it.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::Answer;
use crate::guests;
use crate::server::host;

/// The token of the pool `ci`.
pub const TOKEN: &str = crate::secrets::DELTA_TOKEN;

/// Returns the command of a worker that a host may launch as a runner, with the handlers of the tests.
pub fn worker_command() -> [String; 5] {
    [
        host().display().to_string(),
        "worker".to_owned(),
        "delta".to_owned(),
        "--handlers".to_owned(),
        guests::folder().display().to_string(),
    ]
}

/// A runner for one host.
pub struct Runner {
    agent: ureq::Agent,
    base: String,
    /// Its name.
    pub id: String,
}

/// Writes a configuration with the pool `ci`, whose leases last `ttl_seconds`, and returns its path.
///
/// # Panics
///
/// If the file cannot be written.
pub fn config(folder: &Path, ttl_seconds: u64, more: &str) -> PathBuf {
    let token = folder.join("ci.token");
    std::fs::write(&token, TOKEN).expect("the token can be written");
    let path = folder.join("delta.toml");
    let text = format!(
        "[protocol.delta]\nlease_ttl_seconds = {ttl_seconds}\nheartbeat_interval_seconds = {}\n\
         [protocol.delta.runners.ci]\ntoken_file = {:?}\ncapabilities = [\"os:linux\"]\n{more}\n",
        ttl_seconds / 2,
        token.display().to_string(),
    );
    let mut file = std::fs::File::create(&path).expect("the configuration can be made");
    file.write_all(text.as_bytes())
        .expect("the configuration can be written");
    path
}

impl Runner {
    /// Makes a runner for the host at `address`.
    pub fn new(address: &str, id: &str) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_mins(2)))
            .build();
        Self {
            agent: config.into(),
            base: format!("http://{address}/api/v1/internal"),
            id: id.to_owned(),
        }
    }

    /// Sends a message, with its name as `runner_id`.
    ///
    /// # Panics
    ///
    /// If the host does not answer.
    pub fn send(&self, path: &str, mut message: Value) -> Answer {
        message["runner_id"] = self.id.clone().into();
        let sent = self
            .agent
            .post(format!("{}/{path}", self.base))
            .header("authorization", format!("Bearer {TOKEN}"))
            .header("content-type", "application/json")
            .send(message.to_string());
        answer(sent.expect("the host answers"))
    }

    /// Waits for a lease and returns it.
    ///
    /// # Panics
    ///
    /// If none comes within 30 seconds.
    pub fn lease(&self) -> Value {
        let ask = json!({"capabilities": ["os:linux"], "wait_seconds": 60});
        let granted = self.send("lease", ask);
        assert_eq!(granted.status, 200, "{granted:?}");
        granted.body
    }

    /// Sends a message about a lease.
    pub fn report(&self, path: &str, lease: &Value, mut more: Value) -> Answer {
        more["lease_id"] = lease["lease_id"].clone();
        self.send(path, more)
    }

    /// Sends a part of its log.
    ///
    /// # Panics
    ///
    /// If the host does not answer.
    pub fn log(&self, lease: &Value, offset: u64, text: &str) -> Answer {
        let id = lease["lease_id"].as_str().expect("a lease has an id");
        let url = format!(
            "{}/logs/{id}?runner_id={}&offset={offset}",
            self.base, self.id
        );
        let sent = self
            .agent
            .put(url)
            .header("authorization", format!("Bearer {TOKEN}"))
            .header("content-type", "text/plain")
            .send(text);
        answer(sent.expect("the host answers"))
    }
}

fn answer(mut response: ureq::http::Response<ureq::Body>) -> Answer {
    let status = response.status().as_u16();
    let text = response.body_mut().read_to_string().unwrap_or_default();
    Answer {
        status,
        body: serde_json::from_str(&text).unwrap_or(Value::String(text)),
    }
}
