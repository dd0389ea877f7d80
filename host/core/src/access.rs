//! Who may do what: verbs, the roles that name sets of them, scopes over queues and handlers, and the one check of
//! all three. Allow only: what is not named is refused, and an unknown verb or role is an error.

mod scope;

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use self::scope::{GLOB_BYTES_MAX, GLOBS_MAX, Glob, GlobError, Object, Scope};

/// Declares the verbs with their names and meanings, in the order of their bits.
macro_rules! verbs {
    ($($name:ident $text:literal, $meaning:literal;)+) => {
        /// What a request does.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Verb { $(#[doc = $meaning] $name),+ }

        impl Verb {
            /// All verbs.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Returns the name that users write.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text),+ }
            }

            /// Returns what it allows.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => $meaning),+ }
            }
        }
    };
}

verbs! {
    Enqueue "enqueue", "Enqueue jobs.";
    Read "read", "See jobs, queues, handlers, components, nodes and events, without payloads.";
    ReadPayload "read_payload", "See payloads: params, results, logs, and the details of failures.";
    ReadOwn "read_own", "See the params, results and failures of jobs that it enqueued itself.";
    Cancel "cancel", "Cancel jobs.";
    Retry "retry", "Run ended jobs again.";
    Schedule "schedule", "Change when jobs start; pause, resume, trigger and remove schedules. Setting one needs `enqueue` too.";
    Operate "operate", "Pause queues, change priorities, purge jobs, drain nodes, restart runners.";
    Deploy "deploy", "Deploy, roll back and remove components.";
    Grant "grant", "Accept new grants of a component.";
    Metrics "metrics", "Read metrics.";
    Audit "audit", "Read the audit.";
    Tokens "tokens", "Make, list, rotate and revoke tokens.";
}

/// A name that is not a verb, role or other word of access.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("expected one of {expected}")]
pub struct UnknownWord {
    expected: String,
}

impl FromStr for Verb {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        find(Self::ALL, Self::as_str, text)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

fn find<T: Copy>(
    all: &[T],
    name: impl Fn(T) -> &'static str,
    text: &str,
) -> Result<T, UnknownWord> {
    let found = all.iter().find(|it| name(**it) == text);
    found.copied().ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|it| name(*it)).collect();
        let expected = names.join(", ");
        UnknownWord { expected }
    })
}

/// A set of verbs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct Verbs(u16);

impl Verbs {
    /// No verb.
    pub const NONE: Self = Self(0);

    /// Every verb.
    pub const ALL: Self = Self((1 << Verb::ALL.len()) - 1);

    /// Makes a set.
    pub const fn of(verbs: &[Verb]) -> Self {
        let (mut bits, mut n) = (0, 0);
        while n < verbs.len() {
            bits |= 1 << verbs[n] as u16;
            n += 1;
        }
        Self(bits)
    }

    /// Returns whether a verb is in the set.
    pub const fn has(self, verb: Verb) -> bool {
        self.0 & (1 << verb as u16) != 0
    }

    /// Returns the verbs of this set that another lacks.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns the verbs, in their order.
    pub fn iter(self) -> impl Iterator<Item = Verb> {
        Verb::ALL.iter().copied().filter(move |it| self.has(*it))
    }
}

impl From<Verbs> for Vec<String> {
    fn from(verbs: Verbs) -> Self {
        verbs.iter().map(|verb| verb.to_string()).collect()
    }
}

impl TryFrom<Vec<String>> for Verbs {
    type Error = UnknownWord;

    fn try_from(names: Vec<String>) -> Result<Self, UnknownWord> {
        let verbs = names.iter().map(|name| name.parse());
        Ok(Self::of(&verbs.collect::<Result<Vec<Verb>, _>>()?))
    }
}

impl fmt::Display for Verbs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Vec::<String>::from(*self).join(","))
    }
}

/// A named set of verbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Producer,
    Viewer,
    Operator,
    Deployer,
    Admin,
}

impl Role {
    /// All roles.
    pub const ALL: &[Self] = &[
        Self::Producer,
        Self::Viewer,
        Self::Operator,
        Self::Deployer,
        Self::Admin,
    ];

    /// Returns the name that users write.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Producer => "producer",
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Deployer => "deployer",
            Self::Admin => "admin",
        }
    }

    /// Returns what it allows.
    pub const fn verbs(self) -> Verbs {
        match self {
            Self::Producer => Verbs::of(&[Verb::Enqueue, Verb::Read, Verb::ReadOwn, Verb::Cancel]),
            Self::Viewer => Verbs::of(&[Verb::Read, Verb::Metrics]),
            Self::Operator => Verbs::of(&[
                Verb::Read,
                Verb::Metrics,
                Verb::ReadPayload,
                Verb::ReadOwn,
                Verb::Cancel,
                Verb::Retry,
                Verb::Schedule,
                Verb::Operate,
            ]),
            Self::Deployer => Verbs::of(&[Verb::Read, Verb::Deploy]),
            Self::Admin => Verbs::ALL,
        }
    }
}

impl FromStr for Role {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        find(Self::ALL, Self::as_str, text)
    }
}

/// On whose behalf a request is made, and what it may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// Who it is, as the audit and jobs name it: `token:ID`, `uid:1000`, or empty for anyone.
    pub name: String,
    /// The name that its token was given.
    pub label: Option<String>,
    pub verbs: Verbs,
    pub scope: Scope,
    /// How many of its jobs may wait or run concurrently.
    pub max_waiting: Option<u64>,
}

impl Principal {
    /// Returns the principal on a host without authentication: an administrator without a name.
    pub const fn anyone() -> Self {
        Self {
            name: String::new(),
            label: None,
            verbs: Verbs::ALL,
            scope: Scope::ALL,
            max_waiting: None,
        }
    }

    /// Returns whether it may do this to an object. The one rule of access.
    pub fn allows(&self, verb: Verb, object: Object<'_>) -> bool {
        self.verbs.has(verb) && self.scope.has(object)
    }
}

/// Who may use a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everybody: it says nothing about jobs.
    Open,
    /// Those that authenticate to the route itself, such as the peers of a wire.
    Proof,
    /// Every principal.
    AnyPrincipal,
    /// Principals with this verb whose scope has every queue and handler.
    Needs(Verb),
    /// Principals with this verb: the route keeps to their scopes.
    Scoped(Verb),
}

impl Access {
    /// Admits principals whose scope does not cover everything.
    #[must_use]
    pub const fn scoped(self) -> Self {
        match self {
            Self::Needs(verb) => Self::Scoped(verb),
            other => other,
        }
    }

    /// Returns the verb that it needs.
    pub const fn verb(self) -> Option<Verb> {
        match self {
            Self::Needs(verb) | Self::Scoped(verb) => Some(verb),
            Self::Open | Self::Proof | Self::AnyPrincipal => None,
        }
    }
}

impl From<Verb> for Access {
    fn from(verb: Verb) -> Self {
        Self::Needs(verb)
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open => f.write_str("open"),
            Self::Proof => f.write_str("its own proof"),
            Self::AnyPrincipal => f.write_str("any token"),
            Self::Needs(verb) | Self::Scoped(verb) => verb.fmt(f),
        }
    }
}
