//! A real `host serve` with a pool of foreign RRQ runners.

#![expect(
    clippy::missing_panics_doc,
    reason = "every function panics if the host does not behave as expected"
)]

use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::wait::eventually;
use crate::worker;
use crate::{Client, Options, Server, secrets};

/// How long to wait for runners and jobs.
const WAIT_MAX: Duration = Duration::from_mins(2);

/// How long runners may take to load their handlers: on a loaded machine, they compile all of them first.
const LOADED_WITHIN: Duration = Duration::from_mins(5);

/// A host with a pool of runners named `own`. Both end when this is dropped. If the test fails, it prints
/// the host's log.
pub struct Pool {
    server: Option<Server>,
    options: Options,
    data: TempDir,
}

impl Pool {
    /// Starts a host with `keys` in the configuration table of its pool, followed by `rest`.
    pub fn start(keys: &str, rest: &str) -> Self {
        let data = TempDir::new().expect("a folder can be made");
        let path = data.path().join("host.toml");
        let config = format!("[protocol.rrq.runners.own]\n{keys}\n{rest}\n");
        std::fs::write(&path, config).expect("a file can be written");
        let mut options = Options::new(data.path());
        options.args = vec!["--config".to_owned(), path.display().to_string()];
        let server = Some(Server::start(&options));
        Self {
            server,
            options,
            data,
        }
    }

    /// Starts a host whose pool consists of `size` processes `host worker rrq`, with up to `in_flight`
    /// jobs each.
    pub fn of_workers(size: usize, in_flight: usize) -> Self {
        Self::start(&workers(size, in_flight), "")
    }

    /// Kills the host, calls `between`, and starts the host again.
    #[must_use]
    pub fn killed(mut self, between: impl FnOnce()) -> Self {
        self.server.take().expect("the host runs").kill();
        between();
        self.server = Some(Server::start(&self.options));
        self
    }

    /// Asks the host to stop, and returns its exit code.
    pub fn stop(mut self) -> Option<i32> {
        self.server.take().expect("the host runs").stop()
    }

    /// Returns the host.
    pub fn server(&self) -> &Server {
        self.server.as_ref().expect("the host runs")
    }

    /// Returns a client of the host.
    pub fn client(&self) -> Client {
        self.server().client()
    }

    /// Returns the status of the pool from the API.
    pub fn status(&self) -> Value {
        let answer = self.client().get("/api/v1/runners/own");
        answer.expect("the host answers").body
    }

    /// Returns the host's data directory.
    pub fn folder(&self) -> &std::path::Path {
        self.data.path()
    }

    /// Returns the host's log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.data.path().join("serve.log")).unwrap_or_default()
    }

    /// Waits until all runners accept jobs, and returns their pids.
    pub fn up(&self) -> Vec<u32> {
        eventually("the runners", WAIT_MAX, || {
            let status = self.status();
            let runners = status["runners"].as_array()?.iter();
            let up = runners.clone().all(|runner| runner["state"] == "up");
            let pid = |runner: &Value| u32::try_from(runner["pid"].as_u64()?).ok();
            up.then(|| runners.filter_map(pid).collect())
        })
    }

    /// Waits until the runners have loaded their handlers, which must include `noop`. (They listen before
    /// that.) Returns their pids.
    pub fn loaded(&self) -> Vec<u32> {
        let pids = self.up();
        let jobs = vec![json!({"handler": "own#noop", "timeout_seconds": 300}); 4 * pids.len()];
        let answer = self.client().post("/api/v1/jobs", &json!(jobs));
        let accepted = answer.expect("the host answers").body;
        for entry in accepted.as_array().expect("the jobs are accepted") {
            let id = entry["id"].as_str().expect("an id");
            let job = eventually("a runner to load its handlers", LOADED_WITHIN, || {
                let job = self.client().job(id);
                job["finished_at"].is_string().then_some(job)
            });
            assert_eq!(job["state"], "completed", "{job}");
        }
        pids
    }

    /// Enqueues a job, waits until it runs, and returns its id.
    pub fn running(&self, job: &Value) -> String {
        let client = self.client();
        let id = client.enqueue(job);
        self.until_running(std::slice::from_ref(&id));
        id
    }

    /// Waits until all these jobs run.
    pub fn until_running(&self, ids: &[String]) {
        let client = self.client();
        eventually("the jobs to run", WAIT_MAX, || {
            let runs = |id: &String| client.job(id)["state"] == "running";
            ids.iter().all(runs).then_some(())
        });
    }

    /// Returns the attempts of a job.
    pub fn attempts(&self, id: &str) -> Vec<Value> {
        let path = format!("/api/v1/jobs/{id}/attempts");
        let answer = self.client().get(&path).expect("the host answers");
        let attempts = answer.body["items"].as_array();
        attempts.expect("a list of attempts").clone()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
    }
}

/// Returns configuration keys for a pool that launches `size` processes `host worker rrq`.
pub fn workers(size: usize, in_flight: usize) -> String {
    let mut command = worker::command();
    command.extend(["--cells".to_owned(), "2".to_owned()]);
    launch_config(&command, &worker_env(&[]))
        + &format!("pool_size = {size}\nmax_in_flight = {in_flight}\n")
}

/// Returns the environment of a `host worker rrq`: its cache, a planted secret, and `more`.
pub fn worker_env(more: &[(&str, &str)]) -> Vec<(String, String)> {
    let cache = worker::cache().display().to_string();
    let more = more
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let (name, secret) = secrets::VARIABLE;
    [("XDG_CACHE_HOME", &*cache), (name, secret)]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into_iter()
        .chain(more)
        .collect()
}

/// Returns configuration keys for a pool that launches `command` with the environment `env`.
pub fn launch_config(command: &[String], env: &[(String, String)]) -> String {
    let env: Vec<_> = env
        .iter()
        .map(|(name, value)| format!("{name} = {}", json!(value)))
        .collect();
    format!("cmd = {}\nenv = {{ {} }}\n", json!(command), env.join(", "))
}
