//! Reads the output of a process line by line. The length of a line is limited.

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

/// The longest line that is kept whole, in bytes; longer ones are cut into several.
pub const LINE_BYTES_MAX: usize = 8 << 10;

/// Reads `from` to its end and passes each line to `line`. Replaces invalid UTF-8.
pub(super) async fn read_lines<T: AsyncRead + Unpin>(from: Option<T>, mut line: impl FnMut(&str)) {
    let Some(mut from) = from else {
        return;
    };
    let mut buffer = BytesMut::new();
    loop {
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let text = buffer.split_to(end);
            buffer.advance(1);
            let text = text.strip_suffix(b"\r").unwrap_or(&text);
            line(&String::from_utf8_lossy(text));
        }
        if buffer.len() >= LINE_BYTES_MAX {
            let text = buffer.split_to(LINE_BYTES_MAX);
            line(&String::from_utf8_lossy(&text));
        }
        buffer.reserve(1 << 10);
        let room = LINE_BYTES_MAX.saturating_sub(buffer.len()).max(1);
        match (&mut from).take(room as u64).read_buf(&mut buffer).await {
            Ok(bytes) if bytes > 0 => {}
            _ => break,
        }
    }
    if !buffer.is_empty() {
        line(&String::from_utf8_lossy(&buffer));
    }
}
