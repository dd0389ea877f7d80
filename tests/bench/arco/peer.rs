//! A lean HTTP/1.1 server for the peers that the bench plays: it reads requests whose length is stated,
//! and answers each with 200 and JSON.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Ends when dropped.
pub(super) struct Peer {
    address: SocketAddr,
    serving: JoinHandle<()>,
}

impl Peer {
    /// Listens on a free port. `answer` gets the path and the body of each request.
    pub(super) async fn start<A>(answer: A) -> Result<Self>
    where
        A: Fn(&str, &[u8]) -> String + Send + Sync + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .context("cannot listen")?;
        let address = listener.local_addr()?;
        let answer = Arc::new(answer);
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let answer = Arc::clone(&answer);
                // A connection ends with its client, or with the runtime.
                tokio::spawn(async move { serve(stream, &*answer).await });
            }
        });
        Ok(Self { address, serving })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(mut stream: TcpStream, answer: &(dyn Fn(&str, &[u8]) -> String + Send + Sync)) {
    let _nodelay = stream.set_nodelay(true);
    let mut bytes = Vec::with_capacity(4 << 10);
    loop {
        while let Some((path, start, length)) = request(&bytes) {
            let body = answer(&path, &bytes[start..start + length]);
            bytes.drain(..start + length);
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            if stream.write_all((head + &body).as_bytes()).await.is_err() {
                return;
            }
        }
        match stream.read_buf(&mut bytes).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

/// Returns the path of the first request, and the start and length of its body, once it is complete.
fn request(bytes: &[u8]) -> Option<(String, usize, usize)> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).ok()?;
    let mut lines = head.split("\r\n");
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse().ok())?
    });
    let (start, length) = (end + 4, length.unwrap_or_default());
    (bytes.len() >= start + length).then_some((path, start, length))
}

#[cfg(test)]
mod tests {
    use super::request;

    #[test]
    fn a_request_is_read_once_it_is_whole() {
        let bytes = b"POST /a HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}POST";
        let length = bytes.len() - 4;
        assert_eq!(request(bytes), Some(("/a".to_owned(), length - 2, 2)));
        assert_eq!(request(&bytes[..length - 1]), None);
        assert_eq!(request(b"POST /a HTTP/1.1\r\n"), None);
    }
}
