//! The scene of three wires, each in both roles: a second host executes a Delta lease, an Arco dispatch and a
//! beads task of the first. Both show their records of it.

use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use host_tests::{Client, Options, Server, eventually, guests, ports};
use serde_json::{Value, json};

use crate::Stage;
use crate::table::{Row, row};

/// The component of the second host.
const COMPONENTS: [&str; 3] = ["basics", "markdown", "csv-summary"];

/// The limit for every wait.
const PATIENCE: Duration = Duration::from_mins(3);

/// A job of the first host, and its counterpart at the second.
struct Shared {
    wire: &'static str,
    job: Value,
    /// Its rows in the table, at the first and at the second host.
    what: [&'static str; 2],
}

/// The addresses that the two hosts share.
pub(crate) struct Roles {
    folder: PathBuf,
    /// Where the second host listens for dispatches of Arco.
    arco: String,
}

impl Roles {
    /// Writes the secrets that the hosts share into `folder`.
    pub(crate) fn new(folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder).context("cannot make the folder of the second host")?;
        for (name, secret) in [("ci.token", "demo-token"), ("spark.secret", "demo-secret")] {
            std::fs::write(folder.join(name), secret)
                .with_context(|| format!("cannot write {name}"))?;
        }
        Ok(Self {
            folder: folder.to_owned(),
            arco: format!("127.0.0.1:{}", ports::free(1)),
        })
    }

    /// Returns the configuration of the first host: a pool, a worker and a socket.
    pub(crate) fn orchestrator(&self) -> String {
        let [token, secret, socket] = self.paths();
        format!(
            "[protocol.delta.runners.ci]\ntoken_file = {token:?}\n\
             [protocol.arco.workers.spark]\nurl = \"http://{}\"\nsecret_file = {secret:?}\n\
             [protocol.beads]\nsocket = {socket:?}\nhold_seconds = 20\nwait_seconds = 1\n",
            self.arco
        )
    }

    /// Returns the configuration of the second host, which works for the first at `address`.
    fn worker(&self, address: &str) -> String {
        let [token, secret, socket] = self.paths();
        format!(
            "[protocol.delta.orchestrators.first]\nurl = \"http://{address}\"\n\
             runner_id = \"second\"\ntoken_file = {token:?}\n\
             [protocol.arco.worker]\nlisten = \"{}\"\nsecret_file = {secret:?}\n\
             callback_origins = [\"http://{address}\"]\n\
             [protocol.beads.worker]\nsocket = {socket:?}\nhandler = \"echo\"\n",
            self.arco
        )
    }

    fn paths(&self) -> [String; 3] {
        ["ci.token", "spark.secret", "beads.sock"]
            .map(|name| self.folder.join(name).display().to_string())
    }

    /// Starts the second host beside what the first one does.
    pub(crate) fn start_worker(&self, address: &str) -> Result<JoinHandle<Server>> {
        let handlers = self.folder.join("handlers");
        std::fs::create_dir_all(&handlers).context("cannot make the folder of handlers")?;
        for name in COMPONENTS {
            let component = guests::component(name);
            for path in [component.with_extension("toml"), component] {
                if let Some(name) = path.file_name().filter(|_| path.exists()) {
                    std::fs::copy(&path, handlers.join(name))
                        .with_context(|| format!("cannot copy {}", path.display()))?;
                }
            }
        }
        let config = self.folder.join("worker.toml");
        std::fs::write(&config, self.worker(address)).context("cannot write a configuration")?;
        let mut options = Options::new(&self.folder.join("worker")).handlers(&handlers);
        options.args = vec!["--config".to_owned(), config.display().to_string()];
        Ok(std::thread::spawn(move || Server::start(&options)))
    }
}

/// Gives one job to each of the three workers, and shows each as recorded by both hosts.
pub(crate) fn jobs(stage: &Stage, worker: JoinHandle<Server>) -> Result<Vec<Row>> {
    let worker = worker
        .join()
        .map_err(|_| anyhow!("the second host did not start"))?;
    let client = stage.client();
    let mut rows = Vec::new();
    let start = Instant::now();
    let shared = shared(stage)?;
    let ids: Vec<String> = shared.iter().map(|it| client.enqueue(&it.job)).collect();
    let ended: Vec<Value> = ids.iter().map(|id| client.wait(id)).collect();
    println!(
        "a second host has executed a Delta lease, an Arco dispatch and a beads task of the first: \
         {:.0} ms from the first request to the last end",
        start.elapsed().as_secs_f64() * 1000.0
    );
    let theirs = worker.client();
    for (shared, job) in shared.iter().zip(&ended) {
        ensure!(job["state"] == "completed", "not completed: {job}");
        rows.push(row(&client, job, shared.what[0])?);
        rows.push(row(
            &theirs,
            &fetch_job(&theirs, shared.wire),
            shared.what[1],
        )?);
    }
    let code = worker.stop();
    ensure!(
        code == Some(0),
        "the second host ended with {code:?}, not with 0"
    );
    Ok(rows)
}

fn shared(stage: &Stage) -> Result<[Shared; 3]> {
    let read = |path: &str| {
        let path = stage.root.join(path);
        std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let steps = json!([{"run": "wasm:markdown", "with": {"markdown": read("SECURITY.md")?}}]);
    let csv = read("examples/csv-summary/data/orders.csv")?;
    Ok([
        Shared {
            wire: "delta",
            job: json!({"handler": "ci#pages", "params": {"steps": steps}}),
            what: ["a Delta lease of one step", "that step, as the runner"],
        },
        Shared {
            wire: "arco",
            job: json!({"handler": "spark#csv-summary", "params": {"csv": csv}}),
            what: ["an Arco dispatch", "that task, as the worker"],
        },
        Shared {
            wire: "beads",
            job: json!({"handler": "beads#tidy", "params": {"title": "Implement feature X"}}),
            what: ["a beads task", "that task, as the worker"],
        },
    ])
}

/// Returns the second host's record of work on a wire.
fn fetch_job(client: &Client, wire: &str) -> Value {
    eventually("the history of what was executed", PATIENCE, || {
        let jobs = client.foreign_jobs();
        jobs.into_iter().find(|kept| kept["wire"] == wire)
    })
}
