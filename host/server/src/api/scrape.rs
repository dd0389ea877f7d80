//! What `/metrics` and the export show: asks each part for the numbers that it does not keep itself.

use std::sync::Arc;

use host_cells::run::handlers::Handlers;
use host_core::name::Name;
use host_dispatch::Dispatch;
use host_dispatch::numbers::Numbers;
use host_engine::StoreError;
use host_engine::batch::JobBatch;
use host_engine::limit::tables::read_limits;
use host_engine::table::Range;
use host_runtime::clock::Clock;

use super::ports::Nodes;
use crate::executors::Executors;
use crate::metrics::Metrics;

/// The parts that provide the numbers. Cloning shares them.
#[derive(Clone)]
pub struct Scrape {
    /// Answers queries of the store.
    pub dispatch: Dispatch,
    /// The deployed handlers.
    pub handlers: Handlers,
    /// The executors of foreign workers.
    pub executors: Executors,
    /// The nodes that share the store.
    pub nodes: Arc<dyn Nodes>,
    /// Returns host time.
    pub clock: Clock,
    /// The numbers of the dispatch loop.
    pub numbers: Numbers,
    /// Renders all of them.
    pub metrics: Metrics,
}

impl Scrape {
    /// Returns all metrics in the `OpenMetrics` text format. Those of a database that does not answer are left as
    /// they were.
    pub async fn text(&self) -> Result<String, StoreError> {
        or_nothing(self.count_jobs().await)?;
        let nodes = self.nodes.list().await;
        or_nothing(nodes.map(|nodes| self.metrics.set_nodes(&nodes)))?;
        self.executors.count();
        Ok(self.metrics.encode())
    }

    async fn count_jobs(&self) -> Result<(), StoreError> {
        let queues = self.dispatch.read(|reader| reader.queues()).await?;
        self.metrics.set_jobs(&queues);
        let names = queues.iter().map(|queue| &queue.name);
        let default = Name::default_queue();
        let names = names.chain([&default]).map(Name::as_str);
        let handlers = self.handlers.by_name();
        self.numbers.show(names, handlers.keys().map(Name::as_str));
        let waiting: Vec<Name> = self.metrics.waiting(&queues).into_iter().cloned().collect();
        let runners: Vec<Name> = self
            .executors
            .health()
            .into_iter()
            .map(|executor| executor.name)
            .collect();
        let reading = self
            .dispatch
            .read(move |reader| reader.oldest_available(&waiting, &runners));
        let oldest = reading.await?;
        let kept = self.dispatch.read(|reader| {
            let (limits, waiting) = (read_limits(reader)?, reader.waiting_for_limits()?);
            Ok((
                limits,
                waiting,
                reader.count_records::<JobBatch>(Range::all().marked())?,
            ))
        });
        let (limits, waiting, batches) = kept.await?;
        self.metrics.set_limits(&limits, &waiting);
        self.metrics.set_batches(batches);
        self.metrics.set_oldest(self.clock.now(), &queues, &oldest);
        Ok(())
    }
}

fn or_nothing(done: Result<(), StoreError>) -> Result<(), StoreError> {
    match done {
        Err(StoreError::Away { .. }) => Ok(()),
        other => other,
    }
}
