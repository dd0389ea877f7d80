//! The concerns of the overview, each with the page where it is resolved. Facts that one request returns for all objects are
//! complete; others are read for a bounded number of objects.

use axum::http::StatusCode;
use host_api::component::{ComponentView, RevisionView};
use host_api::handler::{CostView, HandlerView};
use host_api::health::Health;
use host_api::node::NodeView;
use host_api::page::PageView;
use host_api::path;
use host_api::queue::QueueView;
use host_api::runner::PoolView;
use host_api::schedule::{FiringView, ScheduleView, SchedulesQuery};
use host_core::job::State;
use host_engine::node::Standing;

use crate::ask::{Ask, Problem};
use crate::filter::jobs;
use crate::format::{self, number, shorten};
use crate::page::Verb;
use crate::pages::ALL;

/// How many schedules are looked at, and of how many the latest firing.
const SCHEDULES_READ: u32 = 1_000;
const FIRINGS_READ: usize = 10;

/// For how many components the overview reads the nodes that can run them.
const COMPONENTS_READ: usize = 20;

/// How soon a certificate that expires needs attention.
const DAYS_MIN: f64 = 14.0;

/// The longest text of one of them, in bytes.
const TEXT_BYTES_MAX: usize = 500;

/// A concern, and the page where it is resolved.
pub(super) struct Concern {
    pub(super) text: String,
    pub(super) page: String,
}

impl Concern {
    fn new(mut text: String, page: impl Into<String>) -> Self {
        shorten(&mut text, TEXT_BYTES_MAX);
        Self {
            text,
            page: page.into(),
        }
    }
}

/// The rows that the overview has loaded already.
pub(super) struct OverviewRows<'a> {
    pub(super) queues: &'a [QueueView],
    pub(super) handlers: &'a [HandlerView],
    pub(super) pools: &'a [PoolView],
    pub(super) nodes: &'a [NodeView],
}

/// Returns all that needs attention, what hinders most jobs first.
pub(super) async fn list_concerns(
    ask: &Ask,
    shown: &OverviewRows<'_>,
) -> Result<Vec<Concern>, Problem> {
    let mut concerns = health(ask).await;
    let waits = |queue: &QueueView| queue.count(State::Available) > 0;
    if ask.has_all() && shown.queues.iter().any(waits) {
        concerns.extend(components(ask).await?);
    }
    concerns.extend(of_nodes(shown.nodes));
    concerns.extend(of_pools(shown.pools));
    concerns.extend(of_queues(ask, shown.queues));
    concerns.extend(schedules(ask).await?);
    concerns.extend(of_handlers(shown.handlers));
    concerns.extend(since_deploy(shown.handlers));
    Ok(concerns)
}

/// Asks whether this node takes work and how long its certificate is valid.
async fn health(ask: &Ask) -> Vec<Concern> {
    let mut concerns = Vec::new();
    // Such as a full disk.
    if let Err(problem) = ask.get::<Health>(path::READY, &()).await
        && problem.status == StatusCode::SERVICE_UNAVAILABLE
    {
        let text = format!("this node takes no work: {}", problem.detail);
        concerns.push(Concern::new(text, "/nodes"));
    }
    let health: Option<Health> = ask.get(path::HEALTH, &()).await.ok();
    let days = health.and_then(|health| health.certificate_days_left);
    if let Some(days) = days.filter(|days| *days < DAYS_MIN) {
        let text = if days < 0.0 {
            "the certificate of this node has expired: replace it".to_owned()
        } else {
            format!("the certificate of this node expires in {days:.0} days: replace it")
        };
        concerns.push(Concern::new(text, "/nodes"));
    }
    concerns
}

/// Asks which components no node can run.
async fn components(ask: &Ask) -> Result<Vec<Concern>, Problem> {
    let mut concerns = Vec::new();
    let components: PageView<RevisionView> = ask.get(path::COMPONENTS, &ALL).await?;
    for deployed in components.items.iter().take(COMPONENTS_READ) {
        let route = path::with_name(path::COMPONENT, &deployed.component);
        // It may have been removed by now.
        let Ok(component) = ask.get::<ComponentView>(&route, &ALL).await else {
            continue;
        };
        let mut nodes = component.nodes.iter();
        if component.nodes.is_empty() || nodes.any(|node| node.component != FAILED) {
            continue;
        }
        let reason = component
            .nodes
            .iter()
            .find_map(|node| node.reason.as_deref())
            .unwrap_or_default();
        let name = &component.component;
        let text = format!(
            "no node can run jobs of {name}, revision {}: {reason}",
            component.current
        );
        let page = format!("/components/{}", path::segment(name));
        concerns.push(Concern::new(text, page));
    }
    Ok(concerns)
}

/// The state of a component on a node that cannot run it.
const FAILED: &str = "failed";

/// Asks which schedules did not enqueue their last job.
async fn schedules(ask: &Ask) -> Result<Vec<Concern>, Problem> {
    let query = SchedulesQuery {
        limit: Some(SCHEDULES_READ),
        cursor: None,
    };
    let schedules: PageView<ScheduleView> = ask.get(path::SCHEDULES, &query).await?;
    let has_missed = |it: &&ScheduleView| it.counts.missed + it.counts.failed > 0;
    let mut concerns = Vec::new();
    for schedule in schedules.items.iter().filter(has_missed).take(FIRINGS_READ) {
        let name = &schedule.name;
        let route = path::with_name(path::SCHEDULE_FIRINGS, name);
        // It may have been removed by now.
        let firings: Result<PageView<FiringView>, Problem> = ask.get(&route, &ALL).await;
        let latest = firings.ok().and_then(|page| page.items.into_iter().next());
        let Some(latest) = latest else {
            continue;
        };
        // Once it has enqueued a job again, it is mended.
        if ["missed", "failed"].contains(&latest.fate.as_str()) {
            let reason = latest.reason.as_deref().unwrap_or_default();
            let text = format!("schedule {name}: last firing {}: {reason}", latest.fate);
            let page = format!("/schedules/{}", path::segment(name));
            concerns.push(Concern::new(text, page));
        }
    }
    Ok(concerns)
}

fn of_queues(ask: &Ask, queues: &[QueueView]) -> Vec<Concern> {
    let mut concerns = Vec::new();
    for queue in queues {
        let waiting = queue.count(State::Available) + queue.count(State::Retryable);
        if queue.paused && waiting > 0 {
            let text = format!(
                "{} is paused with {} waiting",
                queue.name,
                format::jobs(waiting)
            );
            concerns.push(Concern::new(text, "/queues"));
        }
    }
    let dead: u64 = queues
        .iter()
        .map(|queue| queue.count(State::Discarded))
        .sum();
    if dead > 0 {
        let page = if ask.may(Verb::ReadPayload) {
            "/failures".to_owned()
        } else {
            jobs("state:discarded")
        };
        concerns.push(Concern::new(
            format!("discarded: {}", format::jobs(dead)),
            page,
        ));
    }
    concerns
}

fn of_handlers(handlers: &[HandlerView]) -> impl Iterator<Item = Concern> {
    handlers.iter().filter_map(|handler| {
        let cost = handler.cost.first()?.last_hour.as_ref()?;
        let text = format!(
            "{} failed in {} of {} attempts of the last hour",
            handler.name,
            number(cost.failures),
            number(cost.runs)
        );
        let page = format!("/handlers/{}", path::segment(&handler.name));
        (cost.failures * 2 > cost.runs).then(|| Concern::new(text, page))
    })
}

/// How many attempts of each of two revisions can be compared, and by how much a slower one is slower, in milliseconds.
const RUNS_COMPARED: u64 = 20;
const SLOWER_MS: u64 = 10;

/// Returns the handlers whose current revision is worse than the one that ran before.
fn since_deploy(handlers: &[HandlerView]) -> impl Iterator<Item = Concern> {
    handlers.iter().filter_map(|handler| {
        let [now, before, ..] = &handler.cost[..] else {
            return None;
        };
        let is_current = now.revision == handler.revision && now.component == handler.component;
        let worse = worse(&now.last_day, &before.last_day).filter(|_| is_current)?;
        let text = format!("{} {worse} since revision {}", handler.name, now.revision);
        let page = format!("/handlers/{}", path::segment(&handler.name));
        Some(Concern::new(text, page))
    })
}

/// Says how attempts have become worse, if they have: at least twice as often failed, or twice as slow.
fn worse(now: &CostView, before: &CostView) -> Option<String> {
    if now.runs.min(before.runs) < RUNS_COMPARED {
        return None;
    }
    let share = |cost: &CostView| cost.failures * 100 / cost.runs;
    let (fails, failed) = (share(now), share(before));
    if fails > failed * 2 + 1 {
        return Some(format!("fails in {fails} % of attempts, before {failed} %"));
    }
    let (takes, took) = (now.ran_ms.p50, before.ran_ms.p50);
    let is_slower = takes > took * 2 && takes > took + SLOWER_MS;
    is_slower.then(|| {
        let [takes, took] = [takes, took].map(format::duration);
        format!("takes {takes} at the median, before {took},")
    })
}

fn of_pools(pools: &[PoolView]) -> impl Iterator<Item = Concern> {
    pools.iter().filter(|pool| pool.up == 0).map(|pool| {
        let why = pool.runners.iter().find_map(|it| it.reason.as_deref());
        let reason = why.map_or_else(String::new, |why| format!(": {why}"));
        let text = format!("no runner of {} takes work{reason}", pool.name);
        Concern::new(text, "/executors")
    })
}

fn of_nodes(nodes: &[NodeView]) -> impl Iterator<Item = Concern> {
    let stands = |node: &&NodeView| node.state != Standing::Live.as_str();
    nodes.iter().filter(stands).map(|node| {
        let name = node.name.as_deref().unwrap_or(&node.id);
        Concern::new(format!("node {name} is {}", node.state), "/nodes")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cost(runs: u64, failures: u64, p50: u64) -> CostView {
        let spread = json!({"p50": p50, "p99": p50, "max": p50});
        serde_json::from_value(
            json!({"runs": runs, "failures": failures, "ran_ms": spread, "fuel": spread,
            "cpu_us": spread, "peak_memory_bytes": spread}),
        )
        .unwrap()
    }

    #[test]
    fn a_revision_is_worse_if_it_fails_or_takes_twice_as_much() {
        let before = cost(100, 2, 20);
        for (now, expected) in [
            (cost(100, 5, 20), None),
            (
                cost(100, 6, 20),
                Some("fails in 6 % of attempts, before 2 %"),
            ),
            (
                cost(100, 0, 41),
                Some("takes 41 ms at the median, before 20 ms,"),
            ),
            (cost(100, 0, 40), None),
            // So few attempts say nothing.
            (cost(19, 19, 9_000), None),
        ] {
            assert_eq!(worse(&now, &before).as_deref(), expected);
        }
        assert_eq!(worse(&cost(100, 0, 9), &cost(100, 0, 1)), None);
    }
}
