//! The doors of a listener: each route has its doors, and a listener opens some of them.

use std::fmt;
use std::str::FromStr;

/// A part of the routes, so that others can be kept away from the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Door {
    /// The API of clients.
    Api,
    /// Where foreign workers report.
    Callbacks,
    /// Numbers for monitoring.
    Metrics,
    /// Pages for browsers.
    Pages,
}

/// All doors.
pub const DOORS: [Door; 4] = [Door::Api, Door::Callbacks, Door::Metrics, Door::Pages];

impl Door {
    /// Returns its name in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Callbacks => "callbacks",
            Self::Metrics => "metrics",
            Self::Pages => "pages",
        }
    }
}

impl fmt::Display for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Door {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        DOORS.into_iter().find(|it| it.as_str() == text).ok_or(())
    }
}
