//! What lists and waits have in common.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// A page of a list.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct PageView<T> {
    /// The items; a page may have fewer than asked for although more follow.
    pub items: Vec<T>,
    /// The `cursor` of the next page; `null` at the end.
    pub next_cursor: Option<String>,
}

impl<T> PageView<T> {
    /// Makes the only page of a list.
    pub fn whole(items: Vec<T>) -> Self {
        Self {
            items,
            next_cursor: None,
        }
    }
}

/// Returns where the list continues after `items`, at their last one's name; `None` if there are fewer than `limit`.
pub fn next_cursor<T, N: ToString>(
    items: &[T],
    limit: u32,
    name: impl Fn(&T) -> &N,
) -> Option<String> {
    let last = items.last().filter(|_| items.len() >= limit as usize);
    last.map(|last| name(last).to_string())
}

/// How long to wait.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct WaitQuery {
    /// At most 300; 30 if absent.
    #[param(minimum = 0, maximum = 300)]
    pub timeout_seconds: Option<f64>,
}
