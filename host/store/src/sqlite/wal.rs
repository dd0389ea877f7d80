//! Reads the log of a store (`host.db-wal`) before SQLite replays it. The replay ends silently at the first
//! damaged frame, and loses everything after it.
//!
//! A power failure leaves such a frame too, but only in the last transaction: with `synchronous = FULL` a
//! transaction is on disk before the next one begins. So a bad frame with two ends of transactions after it
//! is damage. The format is <https://www.sqlite.org/walformat.html>.

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, Read, Seek as _};
use std::path::Path;

use host_engine::StoreError;

use super::{check_kind, log_of, name_of};

const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;

/// The first word of a log, plus one if its checksums read words in big-endian order.
const MAGIC: u32 = 0x377f_0682;

/// The possible page sizes.
const PAGE_BYTES: [usize; 8] = [512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536];

/// How many ends of transactions after a bad frame prove that it is not the torn end of the log.
const ENDS_MIN: u64 = 2;

/// How many times to read a log that keeps changing.
const READS_MAX: u32 = 8;

type Header = [u8; HEADER_BYTES];
type Sum = [u32; 2];

/// A damaged place in a log, with transactions after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Break {
    header: Header,
    /// The number of the frame, from 1; 0 is the header.
    frame: u64,
    /// How many transactions end after it.
    ends: u64,
}

/// Checks the log, if any, of the store at `store`, which may be in use.
///
/// A frame before the end of a transaction no longer changes, unless the log restarts. So damage that is
/// found twice, with the same header before and after, was not a write in progress.
pub(super) fn check(store: &Path) -> Result<(), StoreError> {
    check_kind(store)?;
    let log = log_of(store);
    let read = || {
        find_break(&log).map_err(|error| StoreError::Broken {
            operation: "read the store's log",
            message: format!("{}: {error}", log.display()),
        })
    };
    let mut seen = read()?;
    for _ in 1..READS_MAX {
        let Some(broken) = seen else { return Ok(()) };
        seen = read()?;
        if seen.is_some_and(|it| (it.header, it.frame) == (broken.header, broken.frame)) {
            return Err(StoreError::Damaged {
                what: name_of(&log),
                message: broken.to_string(),
            });
        }
    }
    Ok(())
}

impl std::fmt::Display for Break {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.frame {
            0 => f.write_str("its header")?,
            frame => write!(f, "its frame {frame}")?,
        }
        let ends = self.ends;
        write!(
            f,
            " is corrupt; {ends} transactions committed after it would be lost"
        )
    }
}

/// Reads a log once. A log that restarted in the meantime has nothing to lose: all of it was in the store.
fn find_break(path: &Path) -> io::Result<Option<Break>> {
    let mut log = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let found = find(&mut io::BufReader::new(&log))?;
    let mut header = [0; HEADER_BYTES];
    log.rewind()?;
    let is_there = fill(&mut log, &mut header)?;
    Ok(found.filter(|broken| is_there && broken.header == header))
}

/// Returns the first damaged place, if at least [`ENDS_MIN`] transactions end after it.
fn find(log: &mut impl Read) -> io::Result<Option<Break>> {
    let mut header = [0; HEADER_BYTES];
    if !fill(log, &mut header)? {
        return Ok(None);
    }
    if let Some(start) = Start::of(&header) {
        return walk(header, &start, log);
    }
    // The header was on disk before the first frame was written. If that frame continues it, it was whole.
    let mut first = Vec::new();
    let most = FRAME_HEADER_BYTES + PAGE_BYTES[PAGE_BYTES.len() - 1];
    log.take(most as u64).read_to_end(&mut first)?;
    match Start::before(&header, &first) {
        Some(start) => walk(header, &start, &mut first.chain(log)),
        None => Ok(None),
    }
}

/// The state that a log's frames continue from.
struct Start {
    page_bytes: usize,
    words: Words,
    sum: Sum,
    salts: [u8; 8],
    is_whole: bool,
}

impl Start {
    /// Reads a header. `None` if it is damaged.
    fn of(header: &Header) -> Option<Self> {
        let words = Words {
            is_big: word(header, 0) & 1 == 1,
        };
        let sum = words.add([0, 0], &header[..24]);
        let page_bytes = usize::try_from(word(header, 8)).ok()?;
        let is_log = word(header, 0) & !1 == MAGIC && PAGE_BYTES.contains(&page_bytes);
        (is_log && sum == stored(header, 24)).then(|| Self {
            page_bytes,
            words,
            sum,
            salts: salts(header, 16),
            is_whole: true,
        })
    }

    /// Reconstructs the header before the first frame.
    fn before(header: &Header, first: &[u8]) -> Option<Self> {
        PAGE_BYTES.into_iter().find_map(|page_bytes| {
            let frame = first.get(..FRAME_HEADER_BYTES + page_bytes)?;
            [false, true].into_iter().find_map(|is_big| {
                let words = Words { is_big };
                let sums = [stored(header, 24), words.add([0, 0], &header[..24])];
                let goes_on = |sum: &Sum| words.of_frame(*sum, frame) == stored(frame, 16);
                let sum = sums.into_iter().find(goes_on)?;
                (word(frame, 0) != 0).then(|| Self {
                    page_bytes,
                    words,
                    sum,
                    salts: salts(frame, 8),
                    is_whole: false,
                })
            })
        })
    }
}

/// Follows the frames to the end of the file. Those of earlier logs have other salts.
fn walk(header: Header, start: &Start, log: &mut impl Read) -> io::Result<Option<Break>> {
    let mut frame = vec![0; FRAME_HEADER_BYTES + start.page_bytes];
    let mut broken = (!start.is_whole).then_some(0);
    // The checksum that the previous frame states, and the computed one. After the first bad frame, a frame
    // is good if it continues either.
    let mut before = [start.sum; 2];
    let (mut number, mut ends) = (0, 0);
    while fill(log, &mut frame)? {
        number += 1;
        let stored_sum = stored(&frame, 16);
        let mut is_good = false;
        let mut sum = stored_sum;
        if salts(&frame, 8) == start.salts {
            let [by_stored, by_content] = before;
            sum = start.words.of_frame(by_stored, &frame);
            is_good = sum == stored_sum
                || by_stored != by_content
                    && start.words.of_frame(by_content, &frame) == stored_sum;
            is_good &= word(&frame, 0) != 0;
        }
        match broken {
            None if !is_good => broken = Some(number),
            Some(_) if is_good && word(&frame, 4) != 0 => ends += 1,
            _ => {}
        }
        before = [stored_sum, sum];
    }
    Ok(broken.filter(|_| ends >= ENDS_MIN).map(|frame| Break {
        header,
        frame,
        ends,
    }))
}

/// The byte order of a word in checksums.
#[derive(Clone, Copy)]
struct Words {
    is_big: bool,
}

impl Words {
    fn add(self, mut sum: Sum, bytes: &[u8]) -> Sum {
        for pair in bytes.chunks_exact(8) {
            for (place, other) in [(0, 1), (1, 0)] {
                let read = word(pair, 4 * place);
                let number = if self.is_big { read } else { read.swap_bytes() };
                sum[place] = sum[place].wrapping_add(number).wrapping_add(sum[other]);
            }
        }
        sum
    }

    /// Adds the checksummed part of a frame: its first two words and its page.
    fn of_frame(self, sum: Sum, frame: &[u8]) -> Sum {
        let sum = self.add(sum, &frame[..8]);
        self.add(sum, &frame[FRAME_HEADER_BYTES..])
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap_or_default())
}

fn stored(bytes: &[u8], at: usize) -> Sum {
    [word(bytes, at), word(bytes, at + 4)]
}

fn salts(bytes: &[u8], at: usize) -> [u8; 8] {
    bytes[at..at + 8].try_into().unwrap_or_default()
}

/// Fills the buffer. Returns whether there was enough data.
fn fill(log: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match log.read_exact(buffer) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| true),
    }
}
