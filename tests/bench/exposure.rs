//! What it costs to be reached by others: the same load on a host that is open on loopback, on one with TLS and tokens,
//! and on an older host if there is one to compare with, in turns. Connections are kept. The bench's own share of TLS
//! runs on the same cores and counts against the host.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use host_tests::certificates::Authority;
use host_tests::{Options, Server, guests};
use tempfile::TempDir;

use crate::report::{Report, Target};
use crate::rounds::single;
use crate::way::Way;
use crate::{Args, build_folder, load};

const OPEN: &str = "HTTP, 256 jobs in flight, open on loopback";
const EXPOSED: &str = "HTTP, 256 jobs in flight, TLS and tokens";
const OLDER: &str = "HTTP, 256 jobs in flight, the older host";

/// A host, its folder, and how many jobs it ran a second.
struct Column {
    server: Server,
    folder: TempDir,
    jobs_per_second: Vec<f64>,
}

impl Column {
    /// Starts a host with the example handlers.
    fn start(program: Option<&PathBuf>, env: &[(&str, String)]) -> Result<Self> {
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
            server: Server::start(&options),
            folder,
            jobs_per_second: Vec::new(),
        })
    }

    async fn add(&mut self, span: Duration) -> Result<()> {
        let sample = load::run(self.server.address(), single(256), span).await?;
        self.jobs_per_second.push(sample.jobs_per_second);
        Ok(())
    }

    fn end(self, name: &str, report: &mut Report) -> Result<()> {
        report.add(name, "jobs/s", self.jobs_per_second, None);
        let code = self.server.stop();
        ensure!(code == Some(0), "the host ended with {code:?}, not with 0");
        self.folder.close().context("cannot remove its data")
    }
}

/// Starts a host with TLS and tokens, to which the bench finds its way.
fn exposed(authority: &Authority) -> Result<Column> {
    authority.sign("host", &["localhost"], (2_020, 2_100));
    let column = Column::start(
        None,
        &[
            ("HOST_AUTH_MODE", "tokens".to_owned()),
            ("HOST_HTTP_TLS_CERT_FILE", authority.text("host.pem")),
            ("HOST_HTTP_TLS_KEY_FILE", authority.text("host.key")),
        ],
    )?;
    let token = column.folder.path().join("data/admin.token");
    let token = std::fs::read_to_string(&token).context("cannot read the first token")?;
    let authority: &Path = &authority.path("ca.pem");
    Way::new(authority, token.trim())?.to(column.server.address());
    Ok(column)
}

pub(crate) async fn measure(args: &Args, report: &mut Report) -> Result<()> {
    let authority = Authority::default();
    let span = Duration::from_secs_f64(args.seconds);
    let mut open = Column::start(None, &[])?;
    let mut exposed = exposed(&authority)?;
    let mut older = match &args.baseline {
        Some(program) => Some(Column::start(Some(program), &[])?),
        None => None,
    };
    for round in 1..=args.rounds {
        eprintln!("round {round} of {}", args.rounds);
        open.add(span).await?;
        exposed.add(span).await?;
        if let Some(older) = &mut older {
            older.add(span).await?;
        }
    }
    open.end(OPEN, report)?;
    exposed.end(EXPOSED, report)?;
    let (name, target) = ("TLS and tokens to open on loopback", Target::AtLeast(0.9));
    report.ratio(name, EXPOSED, OPEN, target);
    if let Some(older) = older {
        older.end(OLDER, report)?;
        let (name, target) = ("open on loopback to the older host", Target::AtLeast(0.99));
        report.ratio(name, OPEN, OLDER, target);
    }
    Ok(())
}
