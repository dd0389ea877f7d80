//! The meaning of the codes of refused requests and failed attempts, for
//! `docs/errors.md` and `host explain`.

pub mod failures;
pub mod kinds;
pub mod wires;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use host_core::failure::FAILURE_KINDS;
use host_core::problem::INVALID_REQUEST;
use host_http::problem::Kind;

use super::wire_routes;

/// The explanation of a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The stable code.
    pub code: &'static str,
    /// The HTTP status; `None` for failures of attempts, which are no refusals.
    pub status: Option<u16>,
    /// A few words, the same for every occurrence.
    pub title: &'static str,
    /// Its meaning.
    pub explanation: &'static str,
    /// The next step.
    pub next: &'static str,
}

impl From<&Kind> for Explanation {
    fn from(kind: &Kind) -> Self {
        Self {
            code: kind.code,
            status: Some(kind.status),
            title: kind.title,
            explanation: kind.meaning,
            next: kind.next,
        }
    }
}

static ALL: LazyLock<Vec<Explanation>> = LazyLock::new(|| {
    let failures = FAILURE_KINDS.into_iter().map(failures::explain).copied();
    refusals().map(Explanation::from).chain(failures).collect()
});

/// Returns every kind of problem by which requests are refused, each code once.
fn refusals() -> impl Iterator<Item = &'static Kind> {
    let mut seen = BTreeSet::new();
    let kinds = declared().into_iter();
    kinds.filter(move |kind| seen.insert(kind.code))
}

/// Returns the kinds that any part declares; parts may share some.
fn declared() -> Vec<&'static Kind> {
    let descriptions = wire_routes::descriptions();
    let of_wires = descriptions.iter().flat_map(|described| described.kinds);
    let shared = host_http::problem::kinds::KINDS.iter();
    shared
        .copied()
        .chain([&INVALID_REQUEST])
        .chain(host_engine::kinds())
        .chain(kinds::KINDS.iter().chain(of_wires).copied())
        .collect()
}

/// Returns what each code of the API means, and then each kind of failure.
pub fn explanations() -> impl Iterator<Item = &'static Explanation> {
    ALL.iter()
}

/// Returns what a code means: as a code of the API, as a kind of failure, or as both.
pub fn explain(code: &str) -> impl Iterator<Item = &'static Explanation> {
    explanations().filter(move |known| known.code == code)
}
