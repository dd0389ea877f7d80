//! Content codings of responses: which one a response has, and its body without it.
//!
//! A body is decoded when all of it is there, on a thread for that, and what it may return is bounded like a body that is not
//! coded.

use std::io::{self, Read};

use brotli_decompressor::Decompressor;
use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use hyper::header::{CONTENT_ENCODING, HeaderMap};

/// What servers are offered.
pub(crate) const ACCEPTED: &str = "gzip, br, deflate";

/// How much is decoded at a time, in bytes.
const CHUNK_BYTES: usize = 16 << 10;

/// The coding of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Identity,
    Gzip,
    Brotli,
    Deflate,
    /// One that is not known here, or several.
    Unknown,
}

/// Why a body has no decoded form.
#[derive(Debug)]
pub(crate) enum DecodeError {
    TooLarge,
    Invalid(io::Error),
}

impl Coding {
    pub(crate) fn read(headers: &HeaderMap) -> Self {
        let values = headers.get_all(CONTENT_ENCODING).iter();
        let names = values.flat_map(|it| it.as_bytes().split(|byte| *byte == b','));
        let mut codings = names
            .map(|it| it.trim_ascii().to_ascii_lowercase())
            .filter(|it| !it.is_empty() && it != b"identity");
        match (codings.next().as_deref(), codings.next()) {
            (None, _) => Self::Identity,
            (Some(b"gzip" | b"x-gzip"), None) => Self::Gzip,
            (Some(b"br"), None) => Self::Brotli,
            (Some(b"deflate"), None) => Self::Deflate,
            (Some(_), _) => Self::Unknown,
        }
    }

    /// Returns a body without the coding, of at most `bytes_max` bytes. One of an unknown coding stays as it is. Blocks.
    pub(crate) fn decode(self, body: Vec<u8>, bytes_max: usize) -> Result<Vec<u8>, DecodeError> {
        // As in the answer to HEAD.
        if body.is_empty() {
            return Ok(body);
        }
        match self {
            Self::Identity | Self::Unknown => Ok(body),
            Self::Gzip => read(MultiGzDecoder::new(&*body), bytes_max),
            Self::Brotli => read(Decompressor::new(&*body, CHUNK_BYTES), bytes_max),
            Self::Deflate if has_zlib_header(&body) => read(ZlibDecoder::new(&*body), bytes_max),
            // Some servers leave its header out.
            Self::Deflate => read(DeflateDecoder::new(&*body), bytes_max),
        }
    }
}

fn has_zlib_header(body: &[u8]) -> bool {
    match body {
        [first, second, ..] => {
            first & 0x0f == 8 && u16::from_be_bytes([*first, *second]).is_multiple_of(31)
        }
        _ => false,
    }
}

fn read(mut source: impl Read, bytes_max: usize) -> Result<Vec<u8>, DecodeError> {
    let (mut decoded, mut chunk) = (Vec::new(), vec![0; CHUNK_BYTES]);
    loop {
        let length = source.read(&mut chunk).map_err(DecodeError::Invalid)?;
        if length == 0 {
            return Ok(decoded);
        }
        if decoded.len() + length > bytes_max {
            return Err(DecodeError::TooLarge);
        }
        decoded.extend_from_slice(&chunk[..length]);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    use super::*;

    /// `hello s3cr3t-value` in brotli, as another implementation writes it.
    pub(crate) const BROTLI: [u8; 22] = [
        139, 8, 128, 104, 101, 108, 108, 111, 32, 115, 51, 99, 114, 51, 116, 45, 118, 97, 108, 117,
        101, 3,
    ];

    /// 2 MiB of zeros in brotli.
    const BROTLI_BOMB: [u8; 14] = [155, 255, 255, 31, 248, 39, 0, 226, 177, 64, 32, 247, 254, 3];

    pub(crate) fn gzip(body: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(body).unwrap();
        encoder.finish().unwrap()
    }

    fn coding(values: &[&'static str]) -> Coding {
        let pairs = values
            .iter()
            .map(|it| (CONTENT_ENCODING, it.parse().unwrap()));
        Coding::read(&pairs.collect())
    }

    #[test]
    fn a_coding_is_read_from_all_of_its_headers() {
        for (values, expected) in [
            (&[][..], Coding::Identity),
            (&["identity"], Coding::Identity),
            (&["GZip"], Coding::Gzip),
            (&["x-gzip, identity"], Coding::Gzip),
            (&["br"], Coding::Brotli),
            (&["deflate"], Coding::Deflate),
            (&["zstd"], Coding::Unknown),
            (&["gzip", "gzip"], Coding::Unknown),
            (&["gzip, br"], Coding::Unknown),
        ] {
            assert_eq!(coding(values), expected, "{values:?}");
        }
    }

    #[test]
    fn each_coding_is_decoded_within_its_bound() {
        let text = b"hello s3cr3t-value".to_vec();
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
        zlib.write_all(&text).unwrap();
        let mut deflate = DeflateEncoder::new(Vec::new(), Compression::fast());
        deflate.write_all(&text).unwrap();
        for (coding, body) in [
            (Coding::Gzip, gzip(&text)),
            (
                Coding::Gzip,
                [gzip(b"hello "), gzip(b"s3cr3t-value")].concat(),
            ),
            (Coding::Deflate, zlib.finish().unwrap()),
            (Coding::Deflate, deflate.finish().unwrap()),
            (Coding::Brotli, BROTLI.to_vec()),
        ] {
            let decode = |body, bytes_max| coding.decode(body, bytes_max);
            assert_eq!(
                decode(body.clone(), text.len()).unwrap(),
                text,
                "{coding:?}"
            );
            let too_large = decode(body.clone(), text.len() - 1);
            assert!(
                matches!(too_large, Err(DecodeError::TooLarge)),
                "{coding:?}"
            );
            let cut = decode(body[..body.len() - 3].to_vec(), text.len());
            assert!(
                matches!(cut, Err(DecodeError::Invalid(_))),
                "{coding:?}: {cut:?}"
            );
            assert_eq!(decode(Vec::new(), 0).unwrap(), b"", "{coding:?}");
        }
    }

    #[test]
    fn bombs_are_given_up_at_the_bound() {
        let bomb = gzip(&vec![0; 64 << 20]);
        for (coding, body) in [(Coding::Gzip, bomb), (Coding::Brotli, BROTLI_BOMB.to_vec())] {
            let decoded = coding.decode(body, 1 << 20);
            assert!(matches!(decoded, Err(DecodeError::TooLarge)), "{coding:?}");
        }
        for garbage in [&b"\x1f no gzip"[..], &[0xff; 64], b"x"] {
            for coding in [Coding::Gzip, Coding::Brotli] {
                let decoded = coding.decode(garbage.to_vec(), 1 << 20);
                assert!(
                    matches!(decoded, Err(DecodeError::Invalid(_))),
                    "{coding:?}"
                );
            }
        }
    }
}
