//! The demo: `host` in a minute, on real input. `cargo xtask demo` builds what it needs and starts it. It
//! leaves only pages in `target/demo`, and nothing running.

mod hero;
mod roles;
mod rrq;
mod scenes;
mod table;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use host_tests::{Client, Options, Redis, Server, guests};
use tempfile::TempDir;

use crate::roles::Roles;

/// The components it deploys.
const COMPONENTS: &[&str] = &[
    "basics",
    "markdown",
    "csv-summary",
    "hero-rhai",
    "hero-heroscript",
    "actions",
];

/// Shared by the scenes.
struct Stage {
    server: Server,
    options: Options,
    root: PathBuf,
    pages: PathBuf,
    redis: Redis,
    _data: TempDir,
}

impl Stage {
    fn client(&self) -> Client {
        self.server.client()
    }

    /// Kills the host and starts it again on the same data.
    fn kill_and_restart(mut self) -> Self {
        self.server.kill();
        self.server = Server::start(&self.options);
        self
    }
}

fn main() -> Result<()> {
    let manifest_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = manifest_dir
        .ancestors()
        .nth(2)
        .context("the workspace has a root")?;
    let data = TempDir::new().context("cannot make a temporary data directory")?;
    let redis = Redis::start();
    let config = data.path().join("host.toml");
    let roles = Roles::new(&data.path().join("second"))?;
    let settings = hero::settings(&redis) + &roles.orchestrator();
    std::fs::write(&config, settings).context("cannot write the configuration")?;
    let mut options = Options::new(data.path());
    options.args = vec!["--config".to_owned(), config.display().to_string()];
    let stage = Stage {
        server: Server::start(&options),
        options,
        root: root.to_owned(),
        pages: guests::folder().with_file_name("demo"),
        redis,
        _data: data,
    };
    println!(
        "host listens on {}, its data is in a temporary directory",
        stage.server.address()
    );
    let worker = roles.start_worker(stage.server.address())?;
    for name in COMPONENTS {
        scenes::deploy(&stage.client(), name)?;
    }
    let mut rows = scenes::documents(&stage)?;
    rows.push(scenes::csv(&stage)?);
    rows.extend(scenes::failures(&stage)?);
    rows.push(scenes::memory_bomb(&stage)?);
    rows.push(scenes::cancel(&stage)?);
    rows.extend(rrq::requests(&stage)?);
    rows.extend(hero::jobs(&stage)?);
    rows.extend(roles::jobs(&stage, worker)?);
    println!("\n{}\n", table::render(&rows));
    let stage = scenes::power_cut(stage)?;
    println!("the pages are in {}", stage.pages.display());
    let code = stage.server.stop();
    anyhow::ensure!(code == Some(0), "the host ended with {code:?}, not with 0");
    println!("the host has stopped; nothing is left running");
    Ok(())
}
