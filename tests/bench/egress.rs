//! What requests of handlers cost: a GET over TLS on a kept connection, compared with a bare client of the same
//! libraries in a process of its own; and handlers that make none, with and without the interfaces.

mod bare;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use host_tests::certificates::{Authority, VALID};
use host_tests::tls_server::TlsServer;
use host_tests::{Client, Options, Server, from_wat, guests};
use serde_json::json;
use tempfile::TempDir;

use crate::load::{run_handler, single};
use crate::numbers::count;
use crate::report::{Report, Target};
use crate::{Args, build_folder, process};

pub(crate) use self::bare::BareClient;

/// What a request of a handler may cost beyond the bare client's, in microseconds of CPU.
const BEYOND_US_MAX: f64 = 150.0;

const PER_CORE_MIN: f64 = 3_000.0;

/// What handlers that make no requests may cost with the interfaces, compared with those without.
const UNUSED_RATIO_MAX: f64 = 1.02;

/// The requests of a round for each second that it is to take.
const REQUESTS_PER_SECOND: f64 = 1_000.0;

/// The handlers of the components without and with imports.
const WITHOUT: &str = "by_hand";
const WITH: &str = "imports";

/// Rows.
const UNIT: &str = "µs/request";
const BEYOND: &str = "beyond the bare client";
const PER_CORE: &str = "requests of handlers";
const WITH_ROW: &str = "HTTP, 256 jobs in flight, with unused interfaces: CPU";
const WITHOUT_ROW: &str = "HTTP, 256 jobs in flight, without imports: CPU";

/// A host whose handlers may make requests to the server.
struct Stage {
    host: Server,
    folder: TempDir,
    server: TlsServer,
    authority: Authority,
}

impl Stage {
    fn start() -> Result<Self> {
        let authority = Authority::default();
        authority.sign("server", &["127.0.0.1"], VALID);
        let server = TlsServer::start(&authority)?;
        let folder = TempDir::new_in(build_folder()?).context("cannot make a data directory")?;
        let config = folder.path().join("host.toml");
        let text = format!(
            "[grants]\nhttp = [\"{}\"]\nhttp_networks = [\"127.0.0.1/32\"]\n[egress]\nca_file = {:?}\n",
            server.origin(),
            authority.text("ca.pem")
        );
        std::fs::write(&config, text).context("cannot write the configuration")?;
        let mut options = Options::new(&folder.path().join("data"));
        options.args = vec!["--config".to_owned(), config.display().to_string()];
        let host = Server::start(&options);
        let client = host.client();
        let hostile = std::fs::read(guests::component("hostile"))?;
        let manifest = format!(
            "[defaults]\ntimeout_seconds = 600\n[[handlers.request.http]]\nto = \"{}\"\n\
             max_requests = 100000\n",
            server.origin()
        );
        deploy(&client, "requests", &hostile, Some(&manifest))?;
        deploy(&client, WITHOUT, &from_wat::component("good"), None)?;
        deploy(&client, WITH, &from_wat::importing(WITH), None)?;
        Ok(Self {
            host,
            folder,
            server,
            authority,
        })
    }

    /// Returns the CPU time of the host, its cells and its broker, in microseconds.
    fn cpu_us(&self) -> Result<f64> {
        let pid = self.host.pid();
        Ok(process::cpu_us(pid)? + process::cells_cpu_us(pid)?)
    }

    /// Has one job make requests. Returns the CPU time of each, in microseconds.
    fn requests(&self, requests: usize) -> Result<f64> {
        let params =
            json!({"requests": [{"url": self.server.url(), "times": requests}], "strict": true});
        let job = json!({"handler": "request", "params": params, "timeout_seconds": 600, "max_attempts": 1});
        let before = self.cpu_us()?;
        let job = self.host.client().run(&job);
        ensure!(job["state"] == "completed", "the requests failed: {job}");
        Ok((self.cpu_us()? - before) / count(requests))
    }

    /// Runs jobs that make none. Returns the CPU time of each, in microseconds.
    async fn jobs(&self, handler: &'static str, span: Duration) -> Result<f64> {
        let before = self.cpu_us()?;
        let sample = run_handler(handler, self.host.address(), single(256), span).await?;
        Ok((self.cpu_us()? - before) / count(sample.jobs))
    }

    fn stop(self) -> Result<()> {
        let code = self.host.stop();
        ensure!(code == Some(0), "the host ended with {code:?}, not with 0");
        self.folder.close().context("cannot remove its data")
    }
}

fn deploy(client: &Client, name: &str, component: &[u8], manifest: Option<&str>) -> Result<()> {
    let answer = client.deploy_accepted(name, component, manifest)?;
    ensure!(
        answer.status == 201,
        "cannot deploy {name}: {}",
        answer.body
    );
    Ok(())
}

pub(crate) async fn measure(args: &Args, report: &mut Report) -> Result<()> {
    let stage = Stage::start()?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a few thousand"
    )]
    let requests = (args.seconds * REQUESTS_PER_SECOND).max(1.0) as usize;
    let client = BareClient {
        url: stage.server.url(),
        authority: stage.authority.path("ca.pem"),
        requests,
    };
    // The first starts the broker and opens the connection.
    tokio::task::block_in_place(|| stage.requests(10))?;
    for _ in args.rounds("egress") {
        let (bare, ours) = tokio::task::block_in_place(|| {
            anyhow::Ok((client.measure_apart()?, stage.requests(requests)?))
        })?;
        report.push("GET over TLS, bare client: CPU", UNIT, bare);
        report.push(
            "GET over TLS, handler: CPU of host, cells and broker",
            UNIT,
            ours,
        );
        report.push(BEYOND, UNIT, ours - bare);
        report.push(PER_CORE, "1/s a core", 1e6 / ours);
        for (row, handler) in [(WITH_ROW, WITH), (WITHOUT_ROW, WITHOUT)] {
            report.push(row, "µs/job", stage.jobs(handler, args.span()).await?);
        }
    }
    report.target(BEYOND, Target::AtMost(BEYOND_US_MAX));
    report.target(PER_CORE, Target::AtLeast(PER_CORE_MIN));
    let name = "CPU with unused interfaces to without imports";
    let target = Target::AtMost(UNUSED_RATIO_MAX);
    report.ratio(name, WITH_ROW, WITHOUT_ROW, target);
    stage.stop()
}
