//! Reads files and standard input up to a limit, because they may be endless.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The longest text, in bytes.
const TEXT_BYTES_MAX: u64 = 16 << 20;

/// Reads a file.
pub fn file(path: &Path) -> io::Result<String> {
    File::open(path).and_then(bounded)
}

/// Reads standard input.
pub fn standard() -> io::Result<String> {
    bounded(io::stdin().lock())
}

fn bounded(from: impl Read) -> io::Result<String> {
    let mut text = String::new();
    from.take(TEXT_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > TEXT_BYTES_MAX {
        let message = format!("larger than {} MiB", TEXT_BYTES_MAX >> 20);
        return Err(io::Error::other(message));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_without_an_end_is_refused() {
        let refused = file(Path::new("/dev/zero")).unwrap_err().to_string();
        assert_eq!(refused, "larger than 16 MiB");
        assert_eq!(bounded(&b"text"[..]).unwrap(), "text");
    }
}
