//! The real program, end to end: each file is one promise.

mod durability;
mod fixture;
mod life;
