//! What the broker says to an SMTP server before a guest has the connection.

use std::io;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};

use super::stream::read_line;

/// The most lines of one answer.
pub(super) const LINES_MAX: usize = 64;

/// Reads the greeting and says `EHLO`. Returns the greeting.
pub(super) async fn greet(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
) -> io::Result<String> {
    let greeting = answer(stream, "220").await?;
    expect(stream, "EHLO localhost", "250").await?;
    Ok(greeting)
}

/// Signs in over TLS, or in the clear where the grant says so. Returns the greeting, unless it was read before TLS.
pub(super) async fn sign_in(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    is_greeted: bool,
    user: &str,
    password: &str,
) -> io::Result<Option<String>> {
    let greeting = if is_greeted {
        expect(stream, "EHLO localhost", "250").await?;
        None
    } else {
        Some(greet(stream).await?)
    };
    let plain = BASE64_STANDARD.encode(format!("\0{user}\0{password}"));
    expect(stream, &format!("AUTH PLAIN {plain}"), "235")
        .await
        .map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => error,
            kind => io::Error::new(kind, "the server does not let it sign in"),
        })?;
    Ok(greeting)
}

/// Sends a command and reads the answer, which must have the code.
pub(super) async fn expect(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    command: &str,
    code: &str,
) -> io::Result<()> {
    stream
        .write_all(format!("{command}\r\n").as_bytes())
        .await?;
    stream.flush().await?;
    answer(stream, code).await.map(|_| ())
}

/// Reads an answer. The error has its code alone: the text is the server's, and may repeat what it was sent.
async fn answer(stream: &mut (impl AsyncRead + Unpin), code: &str) -> io::Result<String> {
    let mut whole = String::new();
    for _ in 0..LINES_MAX {
        let line = read_line(stream).await?;
        let (found, rest) = line.split_at_checked(3).unwrap_or((&line, ""));
        if found != code {
            let shown: String = found.chars().filter(char::is_ascii_digit).collect();
            let kind = match &*shown {
                "535" | "530" | "534" => io::ErrorKind::PermissionDenied,
                _ => io::ErrorKind::Other,
            };
            return Err(io::Error::new(
                kind,
                format!("the server answered {shown}, not {code}"),
            ));
        }
        whole.push_str(&line);
        if !rest.starts_with('-') {
            return Ok(whole);
        }
    }
    Err(io::Error::other("the server's answer has too many lines"))
}
