//! Reads files and standard input up to a limit, because they may be endless, and arguments that name
//! them.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use host_core::encoding;

use crate::error::{CliError, Exit};
use crate::plain;

/// The longest text, in bytes.
const TEXT_BYTES_MAX: u64 = 16 << 20;

/// Reads the argument `given` of the option `option`, which takes `kind`: the text itself, `@FILE`, or
/// `-` for standard input, also written `@-` as for curl. Returns where the text is from, unless it is the argument, and the text.
pub fn argument(
    option: &str,
    kind: &str,
    given: &str,
) -> Result<(Option<String>, String), CliError> {
    let (source, text) = if matches!(given, "-" | "@-") {
        ("standard input".into(), standard())
    } else if let Some(path) = given.strip_prefix('@') {
        (plain::line(path), file(path.as_ref()))
    } else {
        return Ok((None, given.to_owned()));
    };
    let text = text.map_err(|error| {
        CliError::new(Exit::Usage, format!("read {option} from {source}"), error).next(format!(
            "{option} takes {kind}, @FILE with a readable file, or - for standard input"
        ))
    })?;
    Ok((Some(source.into_owned()), text))
}

/// Reads a file.
pub fn file(path: &Path) -> io::Result<String> {
    File::open(path).and_then(bounded)
}

/// Reads standard input.
pub(crate) fn standard() -> io::Result<String> {
    bounded(io::stdin().lock())
}

fn bounded(from: impl Read) -> io::Result<String> {
    let mut bytes = Vec::new();
    from.take(TEXT_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > TEXT_BYTES_MAX {
        let message = format!("larger than {} MiB", TEXT_BYTES_MAX >> 20);
        return Err(io::Error::other(message));
    }
    encoding::text(bytes).map_err(io::Error::other)
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

    #[test]
    fn a_mark_is_left_out_and_another_encoding_is_named() {
        assert_eq!(bounded(&b"\xef\xbb\xbftext"[..]).unwrap(), "text");
        for (bytes, named) in [
            (&b"\xff\xfe{\0}\0"[..], "UTF-16"),
            (b"\x1f\x8b\x08\0", "gzip"),
            (b"\"\xe9\"", "not UTF-8"),
        ] {
            let refused = bounded(bytes).unwrap_err().to_string();
            assert!(refused.contains(named), "{refused}");
        }
    }
}
