//! Numbers that a seed decides, for histories that a test can repeat.

/// A stream of numbers (xorshift).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Begins the stream of a seed; an even seed shares that of the next odd one.
    pub const fn new(seed: u64) -> Self {
        // It never leaves zero.
        Self(seed | 1)
    }

    /// Returns a number below `limit`, which is above zero.
    pub const fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}
