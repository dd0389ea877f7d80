//! The frames of a runner. One that is too large is skipped, so that it costs its own job and not
//! the connection; only the ids in it are kept. Pure.

use bytes::BytesMut;
use host_wire_kit::stream::{Framing, Next, Pending};

use super::{Defect, Frames, HEADER_BYTES, STEP_BYTES};
use crate::ids::Scan;

/// The largest payload that is skipped, in bytes. A larger length is most likely no length.
const SKIPPED_BYTES_MAX: u32 = 256 << 20;

/// The frames of one connection to a runner.
#[derive(Debug, Default)]
pub(crate) struct OutcomeFrames {
    frames: Frames,
    skipping: Option<Skipping>,
}

/// A payload that is too large, as far as it has arrived.
#[derive(Debug)]
struct Skipping {
    bytes: u32,
    left: usize,
    scan: Scan,
}

impl Framing for OutcomeFrames {
    type Defect = Defect;

    fn room(&mut self) -> &mut BytesMut {
        if self.skipping.is_some() {
            self.frames.buffer.reserve(STEP_BYTES);
            return &mut self.frames.buffer;
        }
        self.frames.room()
    }

    fn next(&mut self) -> Next<Defect> {
        if let Some(skipping) = &mut self.skipping {
            let buffer = &mut self.frames.buffer;
            let arrived = buffer.split_to(buffer.len().min(skipping.left));
            skipping.scan.feed(&arrived);
            skipping.left -= arrived.len();
            if skipping.left > 0 {
                return Next::Incomplete;
            }
            return match self.skipping.take() {
                Some(Skipping { bytes, scan, .. }) => Next::Skipped(Defect::Skipped {
                    bytes,
                    ids: scan.ids(),
                }),
                None => Next::Incomplete,
            };
        }
        match self.frames.next() {
            Next::Broken(Defect::TooLarge { header }) => {
                let bytes = u32::from_be_bytes(header);
                if bytes > SKIPPED_BYTES_MAX {
                    return Next::Broken(Defect::TooLarge { header });
                }
                drop(self.frames.buffer.split_to(HEADER_BYTES));
                self.skipping = Some(Skipping {
                    bytes,
                    left: usize::try_from(bytes).unwrap_or(usize::MAX),
                    scan: Scan::default(),
                });
                self.next()
            }
            next => next,
        }
    }

    fn pending(&self) -> Pending {
        match self.skipping {
            Some(_) => Pending::Body,
            None => self.frames.pending(),
        }
    }

    fn pending_bytes(&self) -> usize {
        self.frames.pending_bytes()
    }
}
