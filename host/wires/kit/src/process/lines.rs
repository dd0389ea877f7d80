//! Cuts the output of a process into lines. The length of a line is limited.

use bytes::{Buf as _, BytesMut};

/// The longest line that is kept whole, in bytes; longer ones are cut into several.
pub const LINE_BYTES_MAX: usize = 8 << 10;

/// The start of a line whose end has not been read yet.
#[derive(Debug, Default)]
pub(super) struct LineBuffer(BytesMut);

impl LineBuffer {
    /// Passes each line that `bytes` ends to `line`. Replaces invalid UTF-8.
    pub(super) fn push(&mut self, bytes: &[u8], mut line: impl FnMut(&str)) {
        self.0.extend_from_slice(bytes);
        while let Some(text) = self.next() {
            let text = text.strip_suffix(b"\r").unwrap_or(&text);
            line(&String::from_utf8_lossy(text));
        }
    }

    /// Passes on the last line if it has no end.
    pub(super) fn finish(&mut self, mut line: impl FnMut(&str)) {
        if !self.0.is_empty() {
            line(&String::from_utf8_lossy(&self.0.split()));
        }
    }

    fn next(&mut self) -> Option<BytesMut> {
        let mut start = self.0.iter().take(LINE_BYTES_MAX + 1);
        if let Some(end) = start.position(|byte| *byte == b'\n') {
            let text = self.0.split_to(end);
            self.0.advance(1);
            return Some(text);
        }
        (self.0.len() > LINE_BYTES_MAX).then(|| self.0.split_to(LINE_BYTES_MAX))
    }
}
