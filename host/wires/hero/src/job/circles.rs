//! Finds jobs that wait for each other, over all worker ids and hosts: reads what the jobs wait for
//! that jobs of ours wait for, and so on. Pure; the caller reads Redis.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use host_core::graph::find_cycle;

use crate::job::is_id;
use crate::messages::{self, Command, Script, Value};

/// The most jobs read in one walk.
pub(crate) const KNOWN_MAX: usize = 10_000;

/// The most jobs read in one step.
const STEP_MAX: usize = 500;

/// The longest list of jobs that is read, in bytes.
const LIST_BYTES_MAX: usize = 64 << 10;

/// The most circles found in one walk.
const CIRCLES_MAX: usize = 100;

/// One walk: which jobs wait for which, as far as that is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Walk(BTreeMap<String, BTreeSet<String>>);

impl Walk {
    /// Starts at jobs and the jobs that each waits for.
    pub(crate) fn from(waiting: impl IntoIterator<Item = (String, BTreeSet<String>)>) -> Self {
        Self(waiting.into_iter().collect())
    }

    /// Returns the jobs to read next; none when the walk is over.
    pub(crate) fn next(&self) -> Vec<String> {
        let open = self.0.values().flatten();
        let unread: BTreeSet<&String> = open.filter(|id| !self.0.contains_key(*id)).collect();
        let room = KNOWN_MAX.saturating_sub(self.0.len());
        let next = unread.into_iter().filter(|id| is_id(id));
        next.take(room.min(STEP_MAX)).cloned().collect()
    }

    /// Returns whether the walk ended because it knows too many jobs.
    pub(crate) fn is_full(&self) -> bool {
        self.0.len() >= KNOWN_MAX
    }

    /// Makes the command that reads jobs.
    pub(crate) fn read(ids: &[String]) -> Command {
        let keys = ids.iter().map(|id| messages::job_key(id)).collect();
        Command::script(Script::Links, keys, [LIST_BYTES_MAX.to_string()])
    }

    /// Adds what the jobs wait for. Returns false if Redis did not answer that.
    pub(crate) fn add(&mut self, ids: &[String], value: Option<&Value>) -> bool {
        let Some(Value::List(found)) = value else {
            return false;
        };
        for (id, lists) in ids.iter().zip(found) {
            self.0.insert(id.clone(), links(lists));
        }
        true
    }

    /// Returns the circles through jobs that fulfil `is_ours`, each with its first job repeated at the
    /// end.
    pub(crate) fn circles(&self, is_ours: impl Fn(&str) -> bool) -> Vec<Vec<String>> {
        let ids: Vec<&String> = self.0.keys().collect();
        let places: BTreeMap<&String, usize> = ids.iter().copied().zip(0..).collect();
        let edges = |others: &BTreeSet<String>| {
            let known = others.iter().filter_map(|id| places.get(id).copied());
            known.collect()
        };
        let mut graph: Vec<Vec<usize>> = self.0.values().map(edges).collect();
        let mut circles = Vec::new();
        for _ in 0..CIRCLES_MAX {
            let Some(path) = find_cycle(&graph) else {
                break;
            };
            let circle: Vec<String> = path.iter().map(|place| ids[*place].clone()).collect();
            let ours = path.iter().find(|place| is_ours(ids[**place]));
            // Without one of its jobs, this circle is not found again.
            graph[*ours.unwrap_or(&path[0])].clear();
            if ours.is_some() {
                circles.push(circle);
            }
        }
        circles
    }
}

/// Reads what one job waits for: `waits_for` if it is there, as its worker does.
fn links(lists: &Value) -> BTreeSet<String> {
    let Value::List(lists) = lists else {
        return BTreeSet::new();
    };
    let list = |place: usize| -> Option<BTreeSet<String>> {
        let trimmed = lists.get(place)?.text()?.trim();
        let text = Some(trimmed).filter(|trimmed| !trimmed.is_empty())?;
        serde_json::from_str(text).ok()
    };
    list(0).unwrap_or_else(|| [1, 2].into_iter().filter_map(list).flatten().collect())
}

/// Returns the job of a circle that ends for all of them: the one with the smallest id of those that
/// fulfil `is_ours`.
pub(crate) fn first(circle: &[String], is_ours: impl Fn(&str) -> bool) -> Option<&str> {
    let ours = circle.iter().map(String::as_str).filter(|id| is_ours(id));
    ours.min()
}

/// Turns a circle so that it begins and ends with this job.
pub(crate) fn turned<'a>(circle: &'a [String], id: &str) -> Vec<&'a str> {
    let ring = &circle[..circle.len().saturating_sub(1)];
    let start = ring.iter().position(|other| other == id).unwrap_or(0);
    let turned = ring.iter().cycle().skip(start).take(ring.len() + 1);
    turned.map(String::as_str).collect()
}
