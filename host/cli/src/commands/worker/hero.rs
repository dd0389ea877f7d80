//! `host worker hero`: takes jobs of Hero dispatchers from their Redis, as a service of its own.

use clap::Args;
use host_console::error::{CliError, Exit};
use host_console::output::put_line;
use host_server::config::{self, HeroConfig};
use host_server::worker;

use super::{Shared, serve};

const DOING: &str = "work for Hero dispatchers";

#[derive(Debug, Args)]
pub(super) struct Hero {
    /// The Redis: `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`, or `rediss://` for TLS; others see
    /// what stands on a command line, so that one with a password is better named by `HOST_HERO_URL`
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Whose jobs are taken; may be given again. `HOST_HERO_WORKER_IDS` names them too
    #[arg(long, value_name = "ID")]
    worker_id: Vec<String>,
    /// How many jobs of one worker id run at once [default: 64]
    #[arg(long, value_name = "N")]
    concurrency: Option<String>,
    /// Which jobs are taken first: the oldest (`right`) or the newest (`left`) [default: right]
    #[arg(long, value_name = "SIDE")]
    pop_side: Option<String>,
    /// The folder below which jobs may name a `log_path`; without it, such jobs are refused
    #[arg(long, value_name = "DIR")]
    log_dir: Option<String>,
    #[command(flatten)]
    shared: Shared,
}

impl Hero {
    pub(super) fn run(self) -> Result<(), CliError> {
        serve::log(self.shared.log_format);
        let ids = (!self.worker_id.is_empty()).then(|| self.worker_id.join(","));
        let given = [
            ("protocol.hero.url", self.url),
            ("protocol.hero.worker_ids", ids),
            ("protocol.hero.concurrency", self.concurrency),
            ("protocol.hero.pop_side", self.pop_side),
            ("protocol.hero.log_dir", self.log_dir),
        ];
        let (config, hero) = self.shared.config(DOING, given)?;
        let hero = hero.ok_or_else(|| missing("no Redis is named", "--url or HOST_HERO_URL"))?;
        if hero.worker_ids.is_empty() {
            return Err(missing("no worker id is given", "--worker-id"));
        }
        let state = config::state(&config.environment);
        let program = serve::program(DOING)?;
        let ready = || announce(&hero);
        worker::hero(&config, &hero, state.as_deref(), program, ready)
            .map_err(|error| CliError::new(Exit::Failed, DOING, error))
    }
}

fn missing(cause: &str, by: &str) -> CliError {
    CliError::new(Exit::Usage, DOING, cause).next(format!("name it with {by}"))
}

fn announce(hero: &HeroConfig) {
    let line = format!(
        "ready hero={} worker_ids={}",
        hero.url,
        hero.worker_ids.join(",")
    );
    // Nobody may read it; the worker works all the same.
    let _unread = put_line(&line);
}
