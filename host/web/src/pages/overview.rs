//! The overview: the host's work now, and its concerns.

mod concerns;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use askama::Template;
use axum::extract::Query;
use axum::response::Response;
use host_api::filter::FilterQuery;
use host_api::filter_text::{self, Filter};
use host_api::handler::HandlerView;
use host_api::job::JobView;
use host_api::node::NodeView;
use host_api::page::PageView;
use host_api::path;
use host_api::queue::QueueView;
use host_api::runner::PoolView;
use host_api::trend::{Span, TrendQuery, TrendView};
use host_core::job::{STATES, State};
use host_engine::node::Standing;
use serde::Deserialize;

use self::concerns::Concern;
use super::ALL;
use super::jobs::fit;
use crate::ask::{Ask, Problem};
use crate::chart::{Chart, draw};
use crate::filter::jobs;
use crate::format::shorten;
use crate::page::{Frame, show as show_page};

/// How many discarded jobs say how jobs fail, and the longest such word, in bytes.
const DISCARDED_READ: u32 = 100;
const KIND_BYTES_MAX: usize = 100;

/// How many running jobs are shown.
const RUNNING_SHOWN: u32 = 10;

/// How many things that need attention are shown.
const CONCERNS_SHOWN: usize = 20;

/// How many queues and handlers are shown.
const ROWS_SHOWN: usize = 10;

#[derive(Template)]
#[template(path = "overview.html")]
struct Page {
    frame: Frame,
    /// By state: its name, how many jobs, and their page.
    totals: Vec<(&'static str, u64, String)>,
    concerns: Vec<Concern>,
    concerns_more: usize,
    /// How the newest discarded jobs failed: the words, how many of them, and their page.
    kinds: Vec<(String, u64, String)>,
    /// Of the cells of all nodes.
    slots: Option<Slots>,
    charts: Vec<Chart>,
    is_day: bool,
    /// Whether other nodes count for themselves.
    is_among_nodes: bool,
    queues: Vec<QueueView>,
    queues_more: usize,
    handlers: Vec<HandlerView>,
    running: Vec<JobView>,
}

/// How many attempts run in cells, and how many could.
struct Slots {
    busy: u64,
    all: u64,
    cells: u64,
    /// The memory of the processes of cells, as far as nodes say.
    memory_bytes: u64,
}

impl Slots {
    fn sum(nodes: &[NodeView]) -> Option<Self> {
        let live = nodes
            .iter()
            .filter(|node| node.state != Standing::Gone.as_str());
        let known = live.filter_map(|node| {
            let (cells, slots) = node.cells.zip(node.slots)?;
            Some((node, u64::from(cells), u64::from(slots)))
        });
        let none = Self {
            busy: 0,
            all: 0,
            cells: 0,
            memory_bytes: 0,
        };
        let sum = known.fold(none, |sum, (node, cells, slots)| Self {
            busy: sum.busy + node.running.cells,
            all: sum.all + cells * slots,
            cells: sum.cells + cells,
            memory_bytes: sum.memory_bytes + node.cell_memory_bytes.unwrap_or_default(),
        });
        (sum.cells > 0).then_some(sum)
    }
}

/// The query of the page.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct OverviewQuery {
    live: Option<String>,
    /// How far back its drawings go.
    span: Span,
}

pub(crate) async fn show(
    ask: Ask,
    Query(shown): Query<OverviewQuery>,
) -> Result<Response, Problem> {
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
    let mut running: PageView<JobView> = ask.get(path::JOBS, &query).await?;
    running.items.iter_mut().for_each(fit);
    let totals = STATES.map(|state| {
        let count = queues.items.iter().map(|queue| queue.count(state)).sum();
        let name = state.as_str();
        (name, count, jobs(format!("state:{name}")))
    });
    let shown_anyway = concerns::OverviewRows {
        queues: &queues.items,
        handlers: &handlers.items,
        pools: &pools,
        nodes: &nodes,
    };
    let mut concerns = concerns::list_concerns(&ask, &shown_anyway).await?;
    let count = |queue: &QueueView| queue.count(State::Discarded);
    let kinds = if queues.items.iter().any(|queue| count(queue) > 0) {
        kinds(&ask).await?
    } else {
        Vec::new()
    };
    let slots = Slots::sum(&nodes);
    let concerns_more = concerns.len().saturating_sub(CONCERNS_SHOWN);
    concerns.truncate(CONCERNS_SHOWN);
    let open = |queue: &QueueView| {
        let open = STATES.iter().filter(|state| !state.is_terminal());
        open.map(|state| queue.count(*state)).sum::<u64>()
    };
    queues.items.sort_by_key(|queue| Reverse(open(queue)));
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
    handlers.items.sort_by_key(|handler| Reverse(runs(handler)));
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
        concerns_more,
        concerns,
        kinds,
        slots,
        queues: queues.items,
        queues_more,
        handlers: handlers.items,
        running: running.items,
    }))
}

/// Returns how the newest discarded jobs failed: the words, how many jobs, and their page. Of a bounded number, which no
/// counter has.
async fn kinds(ask: &Ask) -> Result<Vec<(String, u64, String)>, Problem> {
    let discarded = FilterQuery {
        state: Some(State::Discarded),
        limit: Some(DISCARDED_READ),
        ..FilterQuery::default()
    };
    let newest: PageView<JobView> = ask.get(path::JOBS, &discarded).await?;
    let mut kinds = BTreeMap::<_, u64>::new();
    for failure in newest.items.into_iter().filter_map(|job| job.failure) {
        let kind = failure.user_kind.unwrap_or(failure.kind);
        *kinds.entry(kind).or_default() += 1;
    }
    let mut kinds = Vec::from_iter(kinds);
    kinds.sort_by_key(|(_, count)| Reverse(*count));
    kinds.truncate(ROWS_SHOWN);
    let row = |(mut kind, count): (String, u64)| {
        let filter = Filter {
            state: Some(State::Discarded),
            failure: Some(kind.clone()),
            ..Filter::default()
        };
        shorten(&mut kind, KIND_BYTES_MAX);
        (kind, count, jobs(filter_text::write(&filter)))
    };
    Ok(kinds.into_iter().map(row).collect())
}
