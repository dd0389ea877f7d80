//! Chains: the ways in which a handler has other handlers run in its own attempt, with its fuel, time,
//! memory and log.

/// How a handler has others run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainKind {
    /// Its result is a list of objects with `handler` and `params`. They run in order.
    Steps,
    /// It ends with the error [`CALL`], and is started again with the answers to all calls so far in
    /// its param [`ANSWERS`].
    Calls,
}

/// The kind of the error with which a handler requests a call. Its details are an object with `handler`,
/// `params` and `key`, by which the handler recognizes the answer.
pub const CALL: &str = "script_call";

/// The kind of the error with which a handler ends because one of its calls failed. Its details are an object
/// with `call`, the number of the call from 1.
pub const CALL_FAILED: &str = "script_call_failed";

/// The param with the answers: a list of objects with `key`, and `ok` or `failed`.
pub const ANSWERS: &str = "calls";
