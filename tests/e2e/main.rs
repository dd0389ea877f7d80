//! The real program, end to end: each file is one promise.

#![expect(clippy::unwrap_used, reason = "a test ends where it fails")]

mod durability;
mod fixture;
mod life;
