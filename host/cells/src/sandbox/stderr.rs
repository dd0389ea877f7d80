//! Writes the standard error of children to the log.

use futures_util::StreamExt;
use tokio::io::AsyncRead;
use tokio_util::codec::{FramedRead, LinesCodec, LinesCodecError};

/// How many lines of a child's standard error are logged. It writes only its own errors there.
const STDERR_LINES_MAX: usize = 1_000;

/// The longest line of a child's standard error, in bytes.
const STDERR_LINE_BYTES_MAX: usize = 8 << 10;

/// Writes a child's standard error to the log, line by line.
pub(crate) async fn log(name: &str, errors: impl AsyncRead + Unpin) {
    each_line(errors, |line| tracing::warn!(cell = name, "{line}")).await;
}

/// Reads all lines, and passes on the first ones.
async fn each_line(errors: impl AsyncRead + Unpin, mut log: impl FnMut(&str)) {
    let codec = LinesCodec::new_with_max_length(STDERR_LINE_BYTES_MAX);
    let mut lines = FramedRead::new(errors, codec);
    let mut count = 0;
    loop {
        match lines.next().await {
            // The rest is read too, so that the cell never blocks.
            Some(Ok(_)) if count == STDERR_LINES_MAX => {}
            Some(Ok(line)) => {
                log(&line);
                count += 1;
                if count == STDERR_LINES_MAX {
                    log("too many lines on standard error; the rest is not logged");
                }
            }
            // After an error the stream reports its end, but continues with the next line if polled
            // again.
            Some(Err(LinesCodecError::MaxLineLengthExceeded)) => {
                let _ = lines.next().await;
            }
            Some(Err(LinesCodecError::Io(_))) | None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_line_that_is_too_long_does_not_end_the_log() {
        let long = "x".repeat(10 * STDERR_LINE_BYTES_MAX);
        let text = format!("{long}\n{long}\nlast\n");
        let mut errors = text.as_bytes();
        log("cell-1", &mut errors).await;
        assert!(errors.is_empty(), "{} bytes are not read", errors.len());
    }

    #[tokio::test]
    async fn a_child_that_writes_on_and_on_is_read_and_not_logged() {
        let text = "line\n".repeat(STDERR_LINES_MAX + 10);
        let (mut errors, mut logged) = (text.as_bytes(), Vec::new());
        each_line(&mut errors, |line| logged.push(line.to_owned())).await;
        assert!(errors.is_empty(), "{} bytes are not read", errors.len());
        assert_eq!(logged.len(), STDERR_LINES_MAX + 1);
        assert!(
            logged[STDERR_LINES_MAX].contains("not logged"),
            "{logged:?}"
        );
    }
}
