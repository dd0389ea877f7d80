//! Jobs in lines, each of which is accepted or refused alone.

use serde::Deserialize;
use ureq::http::Request;

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
    /// of each, in their order. If the host stops, the last answer says so and there are none for the lines behind it.
    pub fn enqueue_lines(&self, lines: &[u8]) -> Result<Vec<Item<LineView>>, Error> {
        let request = Request::post(self.url(path::JOBS)).header("content-type", LINES_MEDIA_TYPE);
        let mut response = self.respond(request.body(lines), ANSWER_TIMEOUT, false)?;
        let answers = self.text(&mut response, false)?;
        let answers = answers.lines().map(serde_json::from_str);
        answers.collect::<Result<_, _>>().map_err(Error::Unreadable)
    }
}
