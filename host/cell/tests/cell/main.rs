//! The real child processes with real guests, well-behaved and hostile.

#![expect(clippy::unwrap_used, reason = "a test ends where it fails")]

mod attacks;
mod child;
mod compile;
mod escape;
mod friendly;
mod hostile;
mod interpreters;
mod scratch;
mod stop;
mod web;
