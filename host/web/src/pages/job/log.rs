//! The log of a job: which of its lines are looked for, and reading them in bounded steps.

use std::borrow::Cow;
use std::collections::VecDeque;

use host_api::filter::PageQuery;
use host_api::job::JobView;
use host_api::log::{LineView, plain_value};
use host_api::page::PageView;
use host_api::path;
use host_core::cell::Level;
use serde::{Deserialize, Serialize};

use crate::ask::{Ask, Problem};
use crate::format::shorten;
use crate::page::ROWS_MAX;
use crate::same::with_query;

/// How many lines one question reads, and how many questions follow each other before the user says whether to continue.
const LINES_READ: usize = 1_000;
const QUESTIONS_MAX: usize = 10;

/// The longest message of a line, and the longest value of its fields, in bytes on the page.
const MESSAGE_BYTES_MAX: usize = 4 << 10;
const FIELD_BYTES_MAX: usize = 500;

/// How many fields of a line are shown.
const FIELDS_MAX: usize = 20;

/// What the page of a job shows, as its address has it.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct LogQuery {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) live: Option<String>,
    /// Lines of the log behind this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) after: Option<String>,
    /// Only lines of this attempt; empty for all.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) attempt: String,
    /// Only lines with this text.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) find: String,
    /// Only lines of this level or a worse one; empty for all.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) level: String,
    /// Set for the last lines instead of the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tail: Option<String>,
    /// Attempts behind this one; the latest ones if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) attempts_after: Option<u32>,
    /// What was done to the job before it was shown: an action of its page.
    #[serde(skip_serializing)]
    pub(super) done: String,
    /// Set if the job may still log.
    #[serde(skip)]
    pub(super) is_open: bool,
}

/// The levels, the least severe first.
pub(super) const LEVELS: [&str; 5] = [
    Level::Trace.as_str(),
    Level::Debug.as_str(),
    Level::Info.as_str(),
    Level::Warn.as_str(),
    Level::Error.as_str(),
];

impl LogQuery {
    fn has(&self, line: &LineView) -> bool {
        let fields = line.fields.iter();
        let fields = fields.flat_map(|(name, value)| [name.into(), plain_value(value)]);
        let mut texts = fields.chain([Cow::from(&line.message)]);
        let severity = |level: &str| LEVELS.iter().position(|it| *it == level);
        severity(&line.level) >= severity(&self.level)
            && (self.attempt.is_empty() || self.attempt == line.attempt.to_string())
            && (self.find.is_empty() || texts.any(|text| text.contains(&self.find)))
    }

    /// Returns whether the last lines are shown: a log that grows is followed.
    pub(super) fn is_tail(&self) -> bool {
        self.after.is_none() && (self.tail.is_some() || self.live.is_some() || self.is_open)
    }

    /// Returns the address of the page of a job that shows this.
    pub(super) fn address(&self, job: &str) -> String {
        with_query(format!("/jobs/{job}"), self)
    }
}

/// Lines of a log.
#[derive(Default)]
pub(super) struct Lines {
    /// The oldest first, or the newest if those are looked for.
    pub(super) found: Vec<LineView>,
    pub(super) searched: usize,
    /// Behind which line there may be more.
    pub(super) next: Option<u64>,
}

/// Reads the lines that are looked for: of a bounded number of lines.
pub(super) async fn read(ask: &Ask, job: &JobView, query: &LogQuery) -> Result<Lines, Problem> {
    let (mut found, mut searched) = (VecDeque::new(), 0);
    let mut cursor = query.after.clone();
    let mut next = None;
    let route = path::with_name(path::JOB_LOGS, &job.id);
    'reading: for _ in 0..QUESTIONS_MAX {
        let asked = PageQuery {
            limit: u32::try_from(LINES_READ).ok(),
            cursor: cursor.take(),
        };
        let page: PageView<LineView> = ask.get(&route, &asked).await?;
        next = None;
        let is_full = page.items.len() >= LINES_READ;
        for line in page.items {
            if found.len() == ROWS_MAX && !query.is_tail() {
                next = found.back().map(|line: &LineView| line.seq);
                break 'reading;
            }
            searched += 1;
            next = Some(line.seq);
            if query.has(&line) {
                found.push_back(line);
            }
            if found.len() > ROWS_MAX {
                found.pop_front();
            }
        }
        if !is_full {
            next = None;
            break;
        }
        cursor = next.map(|seq| seq.to_string());
    }
    let mut found = Vec::from(found);
    found.iter_mut().for_each(fit);
    if query.is_tail() {
        found.reverse();
    }
    Ok(Lines {
        found,
        searched,
        next,
    })
}

/// Cuts what is too long for a page.
fn fit(line: &mut LineView) {
    shorten(&mut line.message, MESSAGE_BYTES_MAX);
    let fields = std::mem::take(&mut line.fields).into_iter();
    line.fields = fields
        .take(FIELDS_MAX)
        .map(|(mut name, value)| {
            shorten(&mut name, FIELD_BYTES_MAX);
            let mut text = plain_value(&value).into_owned();
            shorten(&mut text, FIELD_BYTES_MAX);
            (name, text.into())
        })
        .collect();
}
