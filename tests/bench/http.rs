//! A lean HTTP/1.1 client: one connection, one request at a time, no redirects, only what the host's answers
//! need. It must cost less than what it measures.

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use uuid::Uuid;

use crate::way::{self, Stream};

const ANSWER_BYTES_MAX: usize = 4 << 20;

/// A persistent connection.
pub(crate) struct Connection {
    stream: Box<dyn Stream>,
    address: String,
    /// The header that shows a token, if the host wants one.
    header: String,
    answer: Vec<u8>,
    request: Vec<u8>,
}

#[derive(Deserialize)]
struct Accepted {
    id: Uuid,
}

impl Connection {
    pub(crate) async fn open(address: &str) -> Result<Self> {
        let (stream, header) = way::open(address).await?;
        Ok(Self {
            stream,
            address: address.to_owned(),
            header,
            answer: Vec::with_capacity(16 << 10),
            request: Vec::with_capacity(16 << 10),
        })
    }

    /// Posts JSON and returns the status and the body of the answer.
    pub(crate) async fn post(&mut self, path: &str, body: &[u8]) -> Result<(u16, &[u8])> {
        self.post_with(path, "", body).await
    }

    /// Posts JSON with more headers, each of which ends its line.
    pub(crate) async fn post_with(
        &mut self,
        path: &str,
        headers: &str,
        body: &[u8],
    ) -> Result<(u16, &[u8])> {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n{}{headers}\
             content-length: {}\r\n\r\n",
            self.address,
            self.header,
            body.len()
        );
        self.exchange(&head, body)
            .await
            .with_context(|| format!("POST {path} failed"))
    }

    /// Sends a request and reads its answer.
    async fn exchange(&mut self, head: &str, body: &[u8]) -> Result<(u16, &[u8])> {
        self.request.clear();
        self.request.extend_from_slice(head.as_bytes());
        self.request.extend_from_slice(body);
        let sent = self.stream.write_all(&self.request).await;
        sent.context("cannot send the request")?;
        self.answer.clear();
        loop {
            let read = self.stream.read_buf(&mut self.answer).await;
            let bytes = read.context("cannot read the answer")?;
            ensure!(bytes > 0, "the host closed the connection");
            if let Some((status, start, length)) = head_of(&self.answer)?
                && self.answer.len() >= start + length
            {
                return Ok((status, &self.answer[start..start + length]));
            }
            ensure!(
                self.answer.len() <= ANSWER_BYTES_MAX,
                "the answer is too large"
            );
        }
    }

    /// Enqueues one job and returns its id.
    pub(crate) async fn enqueue(&mut self, job: &[u8]) -> Result<Uuid> {
        let (status, body) = self.post("/api/v1/jobs", job).await?;
        ensure!(
            status == 201,
            "a job is refused: {}",
            String::from_utf8_lossy(body)
        );
        let accepted: Accepted = serde_json::from_slice(body)?;
        Ok(accepted.id)
    }

    /// Enqueues an array of jobs and returns their ids.
    pub(crate) async fn enqueue_all(&mut self, jobs: &[u8]) -> Result<Vec<Uuid>> {
        let (status, body) = self.post("/api/v1/jobs", jobs).await?;
        ensure!(
            status == 201,
            "jobs are refused: {}",
            String::from_utf8_lossy(body)
        );
        let accepted: Vec<Accepted> = serde_json::from_slice(body)?;
        Ok(accepted.into_iter().map(|accepted| accepted.id).collect())
    }
}

/// Reads the status and the start and length of the body, once the head is complete.
fn head_of(answer: &[u8]) -> Result<Option<(u16, usize, usize)>> {
    let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = std::str::from_utf8(&answer[..end]).context("the answer's head is not text")?;
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.get(9..12)?.parse().ok());
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse().ok())?
    });
    match (status, length) {
        (Some(status), Some(length)) => Ok(Some((status, end + 4, length))),
        (Some(204), None) => Ok(Some((204, end + 4, 0))),
        _ => bail!("the answer has no status or no length: {head}"),
    }
}

#[cfg(test)]
mod tests {
    use super::head_of;

    #[test]
    fn a_head_is_read_once_it_is_whole() {
        let answer = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}";
        assert_eq!(head_of(answer).unwrap(), Some((201, answer.len() - 2, 2)));
        assert_eq!(head_of(&answer[..30]).unwrap(), None);
        assert!(head_of(b"HTTP/1.1 201 Created\r\n\r\n").is_err());
        let empty = b"HTTP/1.1 204 No Content\r\n\r\n";
        assert_eq!(head_of(empty).unwrap(), Some((204, empty.len(), 0)));
    }
}
