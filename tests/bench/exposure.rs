//! What it costs to be reached by others: the same load on a host that is open on loopback, on one with TLS and tokens,
//! and on an older host if there is one to compare with, in turns. Connections are kept. The bench's own share of TLS
//! runs on the same cores and counts against the host.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use host_tests::certificates::Authority;
use host_tests::{Options, Server, guests};
use tempfile::TempDir;

use crate::load::{self, single};
use crate::report::{Report, Target};
use crate::way::Way;
use crate::{Args, build_folder};

const OPEN: &str = "HTTP, 256 jobs in flight, open on loopback";
const EXPOSED: &str = "HTTP, 256 jobs in flight, TLS and tokens";
const OLDER: &str = "HTTP, 256 jobs in flight, the older host";

/// A host with its folder.
struct Candidate {
    name: &'static str,
    server: Server,
    folder: TempDir,
}

impl Candidate {
    /// Starts a host with the example handlers.
    fn start(
        name: &'static str,
        program: Option<&PathBuf>,
        env: &[(&str, String)],
    ) -> Result<Self> {
        let folder = TempDir::new_in(build_folder()?).context("cannot make a data directory")?;
        let handlers = folder.path().join("handlers");
        std::fs::create_dir(&handlers).context("cannot make a folder of components")?;
        let component = guests::component("basics");
        std::fs::copy(&component, handlers.join("basics.wasm"))
            .with_context(|| format!("cannot copy {}", component.display()))?;
        let mut options = Options::new(&folder.path().join("data")).handlers(&handlers);
        options.program = program.cloned();
        let env = env
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()));
        options.env.extend(env);
        Ok(Self {
            name,
            server: Server::start(&options),
            folder,
        })
    }

    fn stop(self) -> Result<()> {
        let code = self.server.stop();
        ensure!(code == Some(0), "the host ended with {code:?}, not with 0");
        self.folder.close().context("cannot remove its data")
    }
}

/// Starts a host with TLS and tokens, to which the bench finds its way.
fn start_exposed(authority: &Authority) -> Result<Candidate> {
    authority.sign("host", &["localhost"], (2_020, 2_100));
    let host = Candidate::start(
        EXPOSED,
        None,
        &[
            ("HOST_AUTH_MODE", "tokens".to_owned()),
            ("HOST_HTTP_TLS_CERT_FILE", authority.text("host.pem")),
            ("HOST_HTTP_TLS_KEY_FILE", authority.text("host.key")),
        ],
    )?;
    let path = host.folder.path().join("data/admin.token");
    let token = std::fs::read_to_string(&path).context("cannot read the first token")?;
    let authority: &Path = &authority.path("ca.pem");
    Way::new(authority, token.trim())?.to(host.server.address());
    Ok(host)
}

pub(crate) async fn measure(args: &Args, report: &mut Report) -> Result<()> {
    let authority = Authority::default();
    let mut hosts = vec![
        Candidate::start(OPEN, None, &[])?,
        start_exposed(&authority)?,
    ];
    if let Some(program) = &args.baseline {
        hosts.push(Candidate::start(OLDER, Some(program), &[])?);
    }
    for _ in args.rounds("exposure") {
        for host in &hosts {
            let sample = load::run(host.server.address(), single(256), args.span()).await?;
            report.push(host.name, "jobs/s", sample.jobs_per_second);
        }
    }
    let target = Target::AtLeast(0.9);
    report.ratio("TLS and tokens to open on loopback", EXPOSED, OPEN, target);
    let target = Target::AtLeast(0.99);
    report.ratio("open on loopback to the older host", OPEN, OLDER, target);
    hosts.into_iter().try_for_each(Candidate::stop)
}
