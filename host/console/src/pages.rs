//! Reads a complete list from the API, page by page.

use std::time::Duration;

use host_core::time::Time;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::client::{Client, query, read};
use crate::error::CliError;

/// A list. `items` and `views` hold the same entries in the same order.
#[derive(Debug)]
pub struct Listing<T> {
    /// The host's time when it answered, in whole seconds.
    pub now: Option<Time>,
    /// The entries as the host sent them.
    pub items: Vec<Box<RawValue>>,
    /// The parsed entries.
    pub views: Vec<T>,
}

impl<T> Listing<T> {
    /// Keeps only the entries for which `kept` returns true.
    pub fn retain(&mut self, kept: impl Fn(&T) -> bool) {
        let (items, views) = std::mem::take(&mut self.items)
            .into_iter()
            .zip(std::mem::take(&mut self.views))
            .filter(|(_, view)| kept(view))
            .unzip();
        (self.items, self.views) = (items, views);
    }
}

#[derive(Deserialize)]
struct Page {
    items: Vec<Box<RawValue>>,
    next_cursor: Option<String>,
}

/// Reads the complete list at `path`.
pub fn all<T: DeserializeOwned>(
    client: &Client,
    doing: &str,
    path: &str,
) -> Result<Listing<T>, CliError> {
    let mut items = Vec::new();
    let mut cursor = None;
    loop {
        let path = format!("{path}{}", query(&[("cursor", cursor.take())]));
        let answer = client.get(doing, &path, Duration::ZERO)?;
        let page: Page = answer.read(doing)?;
        items.extend(page.items);
        cursor = page.next_cursor;
        if cursor.is_none() {
            let views = items
                .iter()
                .map(|item| read(doing, item.get()))
                .collect::<Result<_, _>>()?;
            let now = answer.now;
            return Ok(Listing { now, items, views });
        }
    }
}
