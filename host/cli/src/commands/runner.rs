//! `host runner`: the foreign runners that execute jobs of a host; how they are, restarting them.

use clap::{Args, Subcommand};
use host_api::node::NamedNode;
use host_api::runner::{NodeQuery, PoolView, RestartBody};
use host_console::error::{CliError, Exit, cannot, cannot_find};
use host_console::options::Remote;
use host_console::output::put_line;
use host_console::table::{Cell, Column, Rows};
use host_console::{human, plain};

use super::node;
use crate::complete;

/// List, show and restart foreign runners.
#[derive(Debug, Args)]
pub(crate) struct Runner {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the pools of foreign runners and their state
    #[command(after_help = "Example:\n  host runner ls -o json")]
    Ls(Remote),
    /// Show the runners of one pool
    #[command(after_help = "\
Examples:
  host runner show python
  host runner show python/2
  host runner show python --node db-worker-3")]
    Show(Show),
    /// Restart the runners of a pool, each once its attempts have ended
    #[command(after_help = "\
Examples:
  host runner restart python
  host runner restart python/2")]
    Restart(RunnerArgs),
}

#[derive(Debug, Args)]
struct RunnerArgs {
    /// The pool's name, or that of one of its runners: python/2
    #[arg(add = complete::runners())]
    name: String,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Args)]
struct Show {
    /// The pool of this node: its id, a prefix of it, or the name of its machine [default: the node that
    /// answers, if it has one]
    #[arg(long)]
    #[arg(add = complete::nodes())]
    node: Option<String>,
    #[command(flatten)]
    named: RunnerArgs,
}

impl RunnerArgs {
    /// Splits `python/2` into the pool and the number of its runner.
    fn split(&self) -> (&str, Option<usize>) {
        let one = self
            .name
            .rsplit_once('/')
            .and_then(|(pool, number)| Some((pool, number.parse().ok()?)));
        one.map_or((&self.name, None), |(pool, number)| (pool, Some(number)))
    }
}

/// The hint for an unknown runner.
const LISTED: &str = "`host runner ls` lists the runners";

impl Runner {
    /// Runs the verb.
    pub(crate) fn run(self) -> Result<(), CliError> {
        match self.verb {
            Verb::Ls(remote) => ls(&remote),
            Verb::Show(show) => self::show(&show.named, show.node),
            Verb::Restart(named) => restart(&named),
        }
    }
}

fn ls(remote: &Remote) -> Result<(), CliError> {
    let (client, output) = remote.open()?;
    let items = client.runners().map_err(cannot("list runners"))?.items;
    let pools: Vec<&PoolView> = items.iter().map(|item| &item.view).collect();
    output.list(&items, |pool| &pool.name, || table(&pools))?;
    // A runner that has not answered yet is not down.
    let is_short = |pool: &&&PoolView| {
        let starting = pool
            .runners
            .iter()
            .filter(|runner| runner.state == "starting");
        pool.up + (starting.count() as u64) < pool.size()
    };
    output.hint(&match pools.iter().find(is_short) {
        None if pools.is_empty() => {
            "no runners are configured; docs/config.md says how to add some".to_owned()
        }
        None => "`host runner show NAME` shows each runner of a pool".to_owned(),
        Some(pool) => {
            let name = plain::line(&pool.name);
            let node = pool.node.as_ref();
            let at = node
                .map(|node| format!(" --node {}", plain::line(&node.id)))
                .unwrap_or_default();
            format!("`host runner show {name}{at}` shows why some of its runners are down")
        }
    });
    Ok(())
}

fn table(pools: &[&PoolView]) -> Rows {
    let nodes: Vec<&NamedNode> = pools.iter().filter_map(|pool| pool.node.as_ref()).collect();
    let are_many = !nodes.is_empty();
    let mut columns = vec![
        Column::Left("POOL"),
        Column::Left("WIRE"),
        Column::Right("UP"),
        Column::Right("OF"),
        Column::Right("IN FLIGHT"),
        Column::Left("JOBS"),
    ];
    if are_many {
        columns.insert(1, Column::Left("NODE"));
    }
    let mut rows = Rows::new(&columns);
    for pool in pools {
        let mut cells = vec![
            Cell::new(plain::line(&pool.name)),
            Cell::new(plain::line(&pool.wire)),
            Cell::new(human::count(pool.up)),
            Cell::new(human::count(pool.size())),
            Cell::new(human::count(pool.in_flight)),
            Cell::new(plain::line(&jobs(pool))),
        ];
        if are_many {
            let node = pool
                .node
                .as_ref()
                .map(|node| node::name_among(node, &nodes));
            cells.insert(1, Cell::new(node.unwrap_or_default()));
        }
        rows.row(cells);
    }
    rows
}

/// Says which jobs go to a pool.
fn jobs(pool: &PoolView) -> String {
    let mut jobs = vec![format!("{}#…", pool.name)];
    jobs.extend(pool.queues.iter().map(|queue| format!("queue {queue}")));
    if pool.default {
        jobs.push("unknown handlers".to_owned());
    }
    jobs.join(", ")
}

fn show(named: &RunnerArgs, node: Option<String>) -> Result<(), CliError> {
    let (client, output) = named.remote.open()?;
    let name = plain::line(&named.name);
    let doing = format!("show runner {name}");
    let (of, number) = named.split();
    let answer = client
        .runner(of, &NodeQuery { node })
        .map_err(cannot_find(&doing, LISTED))?;
    let mut pool = answer.view;
    if number.is_some() {
        pool.runners.retain(|runner| runner.executor == named.name);
        if pool.runners.is_empty() {
            let error = CliError::new(Exit::NotFound, doing, "the pool has no such runner");
            return Err(error.next(format!("`host runner show {}` lists them", plain::line(of))));
        }
    }
    output.print_item(&answer.json, &plain::line(&pool.name), || {
        if pool.runners.is_empty() {
            put_line("no runner is connected")?;
        } else {
            output.rows(runners(&pool))?;
        }
        for runner in &pool.runners {
            for text in [&runner.reason, &runner.doing].into_iter().flatten() {
                let name = plain::line(&runner.executor);
                put_line(&format!("{name}: {}", plain::line(text)))?;
            }
        }
        if let Some(node) = &pool.node {
            put_line(&format!("node {}", node::line(node)))?;
        }
        put_line(&format!("runs {}", plain::line(&jobs(&pool))))
    })?;
    if pool.restartable {
        let of_node = pool.node.as_ref().map_or("", |_| ", asked of that node,");
        output.hint(&format!(
            "`host runner restart {name}`{of_node} {}",
            if pool.external {
                "reconnects to it"
            } else {
                "restarts what is shown"
            }
        ));
    }
    Ok(())
}

fn runners(pool: &PoolView) -> Rows {
    let mut rows = Rows::new(&[
        Column::Left("RUNNER"),
        Column::Left("STATE"),
        Column::Left("ADDRESS"),
        Column::Right("PID"),
        Column::Right("IN FLIGHT"),
        Column::Right("FAILURES"),
    ]);
    for runner in &pool.runners {
        let pid = runner.pid.map(|pid| pid.to_string());
        rows.row(vec![
            Cell::new(plain::line(&runner.executor)),
            Cell::new(plain::line(&runner.state)),
            Cell::new(plain::line(runner.address.as_deref().unwrap_or("-"))),
            Cell::new(pid.unwrap_or_else(|| "-".to_owned())),
            Cell::new(human::count(runner.in_flight)),
            Cell::new(human::count(runner.failures.into())),
        ]);
    }
    rows
}

fn restart(named: &RunnerArgs) -> Result<(), CliError> {
    let (client, output) = named.remote.open()?;
    let whole = plain::line(&named.name);
    let (pool, number) = named.split();
    let doing = format!("restart runner {whole}");
    let answer = client
        .restart_runner(pool, &RestartBody { runner: number })
        .map_err(cannot_find(&doing, LISTED))?;
    output.print_item(&answer.json, &whole, || {
        if answer.view.external {
            put_line(&format!("reconnecting to {whole}"))?;
            output.hint("this host does not start it: restart it where it runs");
        } else {
            put_line(&format!("{whole} is being restarted"))?;
            output.hint(
                "each runner restarts once its attempts have ended; until then it gets no new ones",
            );
        }
        Ok(())
    })
}
