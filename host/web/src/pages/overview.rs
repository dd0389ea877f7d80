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
use host_core::query::Order;
use host_engine::node::Standing;
use serde::Deserialize;

use self::concerns::Concern;
use super::ALL;
use super::jobs::fit;
use crate::ask::{Ask, Problem};
use crate::chart::{Charts, draw};
use crate::filter::jobs;
use crate::format::shorten;
use crate::page::{Frame, show as show_page};

/// How many discarded jobs say how jobs fail, and the longest such word, in bytes.
const DISCARDED_READ: u32 = 100;
const KIND_BYTES_MAX: usize = 100;

/// How many running jobs are shown.
const RUNNING_SHOWN: u32 = 7;

/// How many things that need attention are shown.
const CONCERNS_SHOWN: usize = 20;

/// How many queues and handlers are shown.
const ROWS_SHOWN: usize = 8;

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
    charts: Charts,
    /// How far back they go, in words.
    range: &'static str,
    /// How far they can: the page, its short name, and whether it is this one.
    ranges: Vec<(String, &'static str, bool)>,
    /// Whether other nodes count for themselves.
    is_among_nodes: bool,
    /// With how long the oldest job that waits has waited, in milliseconds.
    queues: Vec<(QueueView, Option<u64>)>,
    queues_more: usize,
    handlers: Vec<HandlerView>,
    running: Vec<JobView>,
    /// Set if one of them says how far it is.
    has_progress: bool,
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

/// How far back the drawings go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Range {
    Quarter,
    #[default]
    Hour,
    Day,
    Week,
}

/// Each range: its page, its short name, and its name in words.
const RANGES: &[(Range, &str, &str, &str)] = &[
    (Range::Quarter, "/?span=quarter", "15 m", "15 minutes"),
    (Range::Hour, "/", "1 h", "hour"),
    (Range::Day, "/?span=day", "1 d", "day"),
    (Range::Week, "/?span=week", "7 d", "week"),
];

impl Range {
    /// Returns the span of the trend, and how many of its newest steps are drawn.
    fn span(self) -> (Span, usize) {
        match self {
            Self::Quarter => (Span::Hour, 15),
            Self::Hour => (Span::Hour, usize::MAX),
            Self::Day => (Span::Day, usize::MAX),
            Self::Week => (Span::Week, usize::MAX),
        }
    }
}

/// The query of the page.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct OverviewQuery {
    live: Option<String>,
    span: Range,
}

pub(crate) async fn show(
    ask: Ask,
    Query(shown): Query<OverviewQuery>,
) -> Result<Response, Problem> {
    let (span, steps_max) = shown.span.span();
    let trend_query = TrendQuery { span: Some(span) };
    // Trends are sums over all queues, which need access to all of them.
    let trend: Result<TrendView, Problem> = ask.get(path::TRENDS, &trend_query).await;
    let mut queues = ask.queues().await?;
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
        let count = queues.iter().map(|queue| queue.count(state)).sum();
        let name = state.as_str();
        (name, count, jobs(format!("state:{name}")))
    });
    let shown_anyway = concerns::OverviewRows {
        queues: &queues,
        handlers: &handlers.items,
        pools: &pools,
        nodes: &nodes,
    };
    let mut concerns = concerns::list_concerns(&ask, &shown_anyway).await?;
    let count = |queue: &QueueView| queue.count(State::Discarded);
    let kinds = if queues.iter().any(|queue| count(queue) > 0) {
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
    queues.sort_by_key(|queue| Reverse(open(queue)));
    let queues_more = queues.len().saturating_sub(ROWS_SHOWN);
    queues.truncate(ROWS_SHOWN);
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
    let is_shown = |range: &&(Range, &str, &str, &str)| range.0 == shown.span;
    let (_, here, _, range) = RANGES.iter().find(is_shown).unwrap_or(&RANGES[1]);
    let range_link = |it: &(Range, &str, _, _)| (it.1.to_owned(), it.2, it.0 == shown.span);
    Ok(show_page(&Page {
        frame: frame
            .same_as("queue ls", path::QUEUES)
            .live(here, shown.live.is_some(), ""),
        charts: trend
            .map(|trend| draw(&trend, steps_max, ask.now))
            .unwrap_or_default(),
        range,
        ranges: RANGES.iter().map(range_link).collect(),
        is_among_nodes: nodes.len() > 1,
        totals: totals.to_vec(),
        concerns_more,
        concerns,
        kinds,
        slots,
        queues: with_oldest(&ask, queues).await?,
        queues_more,
        handlers: handlers.items,
        has_progress: running.items.iter().any(|job| job.progress.is_some()),
        running: running.items,
    }))
}

/// Adds to each queue how long the oldest of its jobs that wait has waited.
async fn with_oldest(
    ask: &Ask,
    queues: Vec<QueueView>,
) -> Result<Vec<(QueueView, Option<u64>)>, Problem> {
    let mut with = Vec::new();
    for queue in queues {
        let oldest = FilterQuery {
            queue: Some(queue.name.clone()),
            state: Some(State::Available),
            sort: Some(Order::Oldest),
            limit: Some(1),
            ..FilterQuery::default()
        };
        let mut waited_ms = None;
        if queue.count(State::Available) > 0 {
            let page: PageView<JobView> = ask.get(path::JOBS, &oldest).await?;
            waited_ms = page.items.first().map(|job| job.waited_ms);
        }
        with.push((queue, waited_ms));
    }
    Ok(with)
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
