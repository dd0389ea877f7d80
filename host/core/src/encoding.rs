//! How a text arrives: programs write a byte order mark before UTF-8, or another encoding, or pack it.

use thiserror::Error;

/// The byte order mark, which some programs write before UTF-8.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// What a text is instead of UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotUtf8 {
    #[error("it is UTF-16; convert it to UTF-8")]
    Utf16,
    #[error("it is UTF-32; convert it to UTF-8")]
    Utf32,
    #[error("it is packed with gzip; unpack it")]
    Gzip,
    #[error("it is packed with zstd; unpack it")]
    Zstd,
    #[error("it is a ZIP archive; unpack it")]
    Zip,
    #[error("it is not UTF-8")]
    Other,
}

/// Returns a text without its byte order mark. Looks only at its beginning, which names another encoding.
pub fn unmarked(bytes: &[u8]) -> Result<&[u8], NotUtf8> {
    match bytes {
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => Err(NotUtf8::Utf32),
        // Texts begin with a character of ASCII, and have no zeros.
        [c, 0, 0, 0, ..] | [0, 0, 0, c, ..] if *c != 0 => Err(NotUtf8::Utf32),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Err(NotUtf8::Utf16),
        [c, 0, ..] | [0, c, ..] if *c != 0 => Err(NotUtf8::Utf16),
        [0x1f, 0x8b, ..] => Err(NotUtf8::Gzip),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Err(NotUtf8::Zstd),
        [b'P', b'K', 3, 4, ..] => Err(NotUtf8::Zip),
        _ => Ok(bytes.strip_prefix(MARK).unwrap_or(bytes)),
    }
}

/// Returns a text without its byte order mark.
pub fn text(bytes: Vec<u8>) -> Result<String, NotUtf8> {
    let mark = bytes.len() - unmarked(&bytes)?.len();
    let mut text = String::from_utf8(bytes).map_err(|_| NotUtf8::Other)?;
    text.drain(..mark);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utf16(text: &str, to_bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(to_bytes).collect()
    }

    fn utf32(text: &str, to_bytes: fn(u32) -> [u8; 4]) -> Vec<u8> {
        text.chars().flat_map(|c| to_bytes(c as u32)).collect()
    }

    #[test]
    fn a_mark_is_left_out_and_other_encodings_are_named() {
        for (bytes, expected) in [
            (b"{}".to_vec(), Ok("{}")),
            (b"\xef\xbb\xbf{}".to_vec(), Ok("{}")),
            (b"\xef\xbb\xbf\xef\xbb\xbf{}".to_vec(), Ok("\u{feff}{}")),
            (b"\xef\xbb\xbf".to_vec(), Ok("")),
            (Vec::new(), Ok("")),
            (b"1".to_vec(), Ok("1")),
            ("\u{e9}".into(), Ok("\u{e9}")),
            (vec![0], Ok("\0")),
            (b"\xef\xbb".to_vec(), Err(NotUtf8::Other)),
            (b"\"\xe9\"".to_vec(), Err(NotUtf8::Other)),
            (utf16("{}", u16::to_le_bytes), Err(NotUtf8::Utf16)),
            (utf16("{}", u16::to_be_bytes), Err(NotUtf8::Utf16)),
            (utf16("1", u16::to_le_bytes), Err(NotUtf8::Utf16)),
            (utf16("\u{feff}{}", u16::to_le_bytes), Err(NotUtf8::Utf16)),
            (utf16("\u{feff}{}", u16::to_be_bytes), Err(NotUtf8::Utf16)),
            (utf32("{}", u32::to_le_bytes), Err(NotUtf8::Utf32)),
            (utf32("{}", u32::to_be_bytes), Err(NotUtf8::Utf32)),
            (utf32("\u{feff}{}", u32::to_le_bytes), Err(NotUtf8::Utf32)),
            (utf32("\u{feff}{}", u32::to_be_bytes), Err(NotUtf8::Utf32)),
            (b"\x1f\x8b\x08\x00".to_vec(), Err(NotUtf8::Gzip)),
            (b"\x28\xb5\x2f\xfd\x04".to_vec(), Err(NotUtf8::Zstd)),
            (b"PK\x03\x04".to_vec(), Err(NotUtf8::Zip)),
        ] {
            let read = text(bytes.clone());
            assert_eq!(
                read.as_deref(),
                expected.as_ref().map(|it| *it),
                "{bytes:?}"
            );
        }
    }
}
