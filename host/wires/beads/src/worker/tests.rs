//! The worker role without sockets.

mod captured;
mod fixture;
mod framed;
mod rules;
mod transcripts;
