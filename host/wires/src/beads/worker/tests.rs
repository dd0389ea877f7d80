//! The worker role without sockets.

mod captured;
mod fixture;
mod rules;
mod transcripts;
