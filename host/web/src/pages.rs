//! The pages, one file each.

pub(crate) mod audit;
pub(crate) mod batches;
pub(crate) mod change;
pub(crate) mod components;
pub(crate) mod executors;
pub(crate) mod failures;
pub(crate) mod find;
pub(crate) mod handlers;
pub(crate) mod job;
pub(crate) mod jobs;
pub(crate) mod limits;
pub(crate) mod live;
pub(crate) mod nodes;
pub(crate) mod overview;
pub(crate) mod queues;
pub(crate) mod schedules;
pub(crate) mod tokens;

use serde::Deserialize;

pub(crate) use crate::ask::ALL;
use crate::same::with_query;

/// Whether a page reloads itself, and which part of a list it shows.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Live {
    live: Option<String>,
    /// The place of the first item.
    pub(crate) from: usize,
}

impl Live {
    pub(crate) fn is_on(&self) -> bool {
        self.live.is_some()
    }

    /// Returns the address of the part that is shown, of a page without other parameters.
    pub(crate) fn address(&self, page: &str) -> String {
        let from = Some(("from", self.from)).filter(|_| self.from > 0);
        with_query(page, &Vec::from_iter(from))
    }
}

/// A button of a page.
#[derive(Deserialize)]
pub(crate) struct Clicked {
    /// The action to take.
    pub(crate) action: String,
    /// Set once the question before the change was answered.
    #[serde(default)]
    pub(crate) sure: bool,
    /// More of what to do: a priority, a revision, the number of a runner.
    #[serde(default)]
    pub(crate) value: String,
}
