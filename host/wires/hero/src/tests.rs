//! What tests of both roles share.

pub(super) mod redis;
