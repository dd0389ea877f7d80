//! Asks a server to begin TLS, in the protocol that it speaks.

use std::io;

use host_core::tcp_grant::TlsStart;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::smtp;
use super::stream::read_line;
use crate::dial::Counted;

/// The `SSLRequest` of PostgreSQL.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// Does what comes before TLS. Returns the greeting of the server, if the guest should have it.
pub(super) async fn ask(stream: &mut Counted, start: TlsStart) -> io::Result<Option<String>> {
    match start {
        TlsStart::None | TlsStart::Direct => Ok(None),
        TlsStart::Postgres => {
            stream.write_all(&SSL_REQUEST).await?;
            match stream.read_u8().await? {
                b'S' => Ok(None),
                _ => Err(io::Error::other("the server refuses TLS")),
            }
        }
        TlsStart::Smtp => {
            let greeting = smtp::greet(stream).await?;
            smtp::expect(stream, "STARTTLS", "220").await?;
            Ok(Some(greeting))
        }
        TlsStart::Imap => {
            let greeting = read_line(stream).await?;
            stream.write_all(b"host STARTTLS\r\n").await?;
            // Untagged lines may come first.
            for _ in 0..smtp::LINES_MAX {
                let line = read_line(stream).await?;
                if line.starts_with("host OK") {
                    return Ok(Some(greeting));
                }
                if line.starts_with("host ") {
                    break;
                }
            }
            Err(io::Error::other("the server refuses STARTTLS"))
        }
    }
}
