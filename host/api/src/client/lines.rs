//! Jobs in lines, each of which is accepted or refused alone.

use serde::Deserialize;

use super::{ANSWER_TIMEOUT, Client, Error, Item, Problem};
use crate::new_job::{AcceptedView, LINES_MEDIA_TYPE};
use crate::path;

/// What became of the job of a line.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum LineView {
    Accepted(AcceptedView),
    Refused(Problem),
}

impl Client {
    /// Enqueues the jobs of `lines`, at most [`LINES_AT_ONCE`](crate::new_job::LINES_AT_ONCE), and returns what became
    /// of each, in their order. A host that is stopping refuses the next line and ignores the rest.
    pub fn enqueue_lines(&self, lines: &[u8]) -> Result<Vec<Item<LineView>>, Error> {
        let request = self.with_body("POST", path::JOBS, LINES_MEDIA_TYPE, lines);
        let mut response = self.respond(request, ANSWER_TIMEOUT, false)?;
        let text = self.text(&mut response, false)?;
        let answers = text.lines().map(serde_json::from_str);
        answers.collect::<Result<_, _>>().map_err(Error::Unreadable)
    }
}
