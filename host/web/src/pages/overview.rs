//! What the host does now, and what needs attention.

use askama::Template;
use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::Response;
use host_api::handler::HandlerView;
use host_api::health::Health;
use host_api::job::JobView;
use host_api::node::NodeView;
use host_api::page::PageView;
use host_api::path;
use host_api::queue::QueueView;
use host_api::runner::PoolView;
use host_api::trend::{Span, TrendQuery, TrendView};
use host_core::job::{STATES, State};
use host_core::node::Standing;
use serde::Deserialize;

use super::ALL;
use crate::ask::{Ask, Problem};
use crate::chart::{Chart, draw};
use crate::filter::jobs;
use crate::format::number;
use crate::page::{Frame, Verb, show as show_page};

/// How many running jobs are shown.
const RUNNING_SHOWN: u32 = 10;

/// How many queues and handlers are shown.
const ROWS_SHOWN: usize = 10;

#[derive(Template)]
#[template(path = "overview.html")]
struct Page {
    frame: Frame,
    /// By state: its name, how many jobs, and their page.
    totals: Vec<(&'static str, u64, String)>,
    concerns: Vec<Concern>,
    charts: Vec<Chart>,
    is_day: bool,
    /// Whether other nodes count for themselves.
    is_among_nodes: bool,
    queues: Vec<QueueView>,
    queues_more: usize,
    handlers: Vec<HandlerView>,
    running: Vec<JobView>,
}

/// What needs attention, and the page where it is fixed.
struct Concern {
    text: String,
    page: String,
}

/// What the page shows.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Shown {
    live: Option<String>,
    /// How far back its drawings go.
    span: Span,
}

pub(crate) async fn show(ask: Ask, Query(shown): Query<Shown>) -> Result<Response, Problem> {
    let span = TrendQuery {
        span: Some(shown.span),
    };
    // Trends are sums over all queues, which need access to all of them.
    let trend: Result<TrendView, Problem> = ask.get(path::TRENDS, &span).await;
    let mut queues: PageView<QueueView> = ask.get(path::QUEUES, &ALL).await?;
    let mut handlers: PageView<HandlerView> = ask.get(path::HANDLERS, &ALL).await?;
    let (mut pools, mut nodes) = (Vec::new(), Vec::new());
    if ask.has_all() {
        pools = ask
            .get::<PageView<PoolView>>(path::RUNNERS, &ALL)
            .await?
            .items;
        nodes = ask
            .get::<PageView<NodeView>>(path::NODES, &ALL)
            .await?
            .items;
    }
    let limit = RUNNING_SHOWN.to_string();
    let query = [("state", State::Running.as_str()), ("limit", &limit)];
    let running: PageView<JobView> = ask.get(path::JOBS, &query).await?;
    let totals = STATES.map(|state| {
        let count = queues.items.iter().map(|queue| queue.count(state)).sum();
        let name = state.as_str();
        (name, count, jobs(format!("state:{name}")))
    });
    let dead = if ask.may(Verb::ReadPayload) {
        "/failures".to_owned()
    } else {
        jobs("state:discarded")
    };
    let mut concerns = concerns(&queues.items, dead, &handlers.items, &pools, &nodes);
    // Such as a full disk.
    if let Err(problem) = ask.get::<Health>(path::READY, &()).await
        && problem.status == StatusCode::SERVICE_UNAVAILABLE
    {
        concerns.insert(
            0,
            Concern {
                text: format!("this node takes no work: {}", problem.detail),
                page: "/nodes".to_owned(),
            },
        );
    }
    let open = |queue: &QueueView| {
        let open = STATES.iter().filter(|state| !state.is_terminal());
        open.map(|state| queue.count(*state)).sum::<u64>()
    };
    queues
        .items
        .sort_by_key(|queue| std::cmp::Reverse(open(queue)));
    let queues_more = queues.items.len().saturating_sub(ROWS_SHOWN);
    queues.items.truncate(ROWS_SHOWN);
    let runs = |handler: &HandlerView| {
        let last = handler
            .cost
            .first()
            .and_then(|cost| cost.last_hour.as_ref());
        last.map_or(0, |cost| cost.runs)
    };
    handlers.items.retain(|handler| !handler.cost.is_empty());
    handlers
        .items
        .sort_by_key(|handler| std::cmp::Reverse(runs(handler)));
    handlers.items.truncate(ROWS_SHOWN);
    let frame = ask.frame("Overview", "/");
    let is_day = shown.span == Span::Day;
    let here = if is_day { "/?span=day" } else { "/" };
    Ok(show_page(&Page {
        frame: frame
            .same_as("queue ls", path::QUEUES)
            .live(here, shown.live.is_some(), ""),
        charts: trend.map(|trend| draw(&trend, ask.now)).unwrap_or_default(),
        is_day,
        is_among_nodes: nodes.len() > 1,
        totals: totals.to_vec(),
        concerns,
        queues: queues.items,
        queues_more,
        handlers: handlers.items,
        running: running.items,
    }))
}

fn jobs_of(count: u64) -> String {
    let noun = if count == 1 { "job" } else { "jobs" };
    format!("{} {noun}", number(count))
}

fn concerns(
    queues: &[QueueView],
    dead_letters: String,
    handlers: &[HandlerView],
    pools: &[PoolView],
    nodes: &[NodeView],
) -> Vec<Concern> {
    let mut concerns = Vec::new();
    for queue in queues {
        let waiting = queue.count(State::Available) + queue.count(State::Retryable);
        if queue.paused && waiting > 0 {
            concerns.push(Concern {
                text: format!("{} is paused with {} waiting", queue.name, jobs_of(waiting)),
                page: "/queues".to_owned(),
            });
        }
    }
    let dead: u64 = queues
        .iter()
        .map(|queue| queue.count(State::Discarded))
        .sum();
    if dead > 0 {
        concerns.push(Concern {
            text: format!("discarded: {}", jobs_of(dead)),
            page: dead_letters,
        });
    }
    for handler in handlers {
        let last = handler
            .cost
            .first()
            .and_then(|cost| cost.last_hour.as_ref());
        if let Some(cost) = last.filter(|cost| cost.failures * 2 > cost.runs) {
            concerns.push(Concern {
                text: format!(
                    "{} failed in {} of {} attempts of the last hour",
                    handler.name,
                    number(cost.failures),
                    number(cost.runs)
                ),
                page: format!("/handlers/{}", path::segment(&handler.name)),
            });
        }
    }
    for pool in pools.iter().filter(|pool| pool.up == 0) {
        let reason = pool.runners.iter().find_map(|it| it.reason.as_deref());
        let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
        concerns.push(Concern {
            text: format!("no runner of {} takes work{reason}", pool.name),
            page: "/executors".to_owned(),
        });
    }
    for node in nodes
        .iter()
        .filter(|node| node.state != Standing::Live.as_str())
    {
        let name = node.name.as_deref().unwrap_or(&node.id);
        concerns.push(Concern {
            text: format!("node {name} is {}", node.state),
            page: "/nodes".to_owned(),
        });
    }
    concerns
}
