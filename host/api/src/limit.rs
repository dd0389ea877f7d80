//! Limits by key as the API takes and shows them.

use host_core::access::{Glob, Scope};
use host_core::name::Name;
use host_core::seconds::Seconds;
use host_core::time::Time;
use host_engine::limit::{KeptLimit, KeyPart, KeyUse, Limit, Rate, WhenFull};
use host_engine::schedule::Source;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::pretty;
use crate::words::{LimitSource, LimitWhenFull, Withheld};

/// Which jobs a limit concerns. All of them if both are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = LimitMatch)]
#[serde(deny_unknown_fields)]
pub struct MatchBody {
    /// A name of queues, in which `*` matches any characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The same for handlers, with their runner if they have one: `send_*`, `python#*`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handler: Option<String>,
}

/// One part of a key or several: JSON pointers into params such as `/customer`, or `attributes:NAME`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = LimitKeyParts)]
#[serde(untagged, expecting = "expected a string or an array of strings")]
pub enum KeyBody {
    /// One.
    One(String),
    /// Several, which make one key together.
    Several(Vec<String>),
}

/// How many jobs of a key may start per period: a token bucket, from which each start takes one, or as many as the job's `units`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = LimitRate)]
#[serde(deny_unknown_fields)]
pub struct RateBody {
    /// How many tokens are added every `per_seconds`: 1–1,000,000.
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub count: u32,
    /// 1–2,678,400 (31 days).
    #[schema(minimum = 1, maximum = 2_678_400)]
    pub per_seconds: u32,
    /// How many tokens the bucket holds: `count` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub burst: Option<u32>,
}

/// A limit to set. It needs `concurrency`, `rate`, or both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = NewLimit)]
#[serde(deny_unknown_fields)]
pub struct LimitBody {
    /// Which jobs it concerns.
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    pub matches: Option<MatchBody>,
    /// What makes up a job's key. If absent, all jobs have the same key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeyBody>,
    /// How many jobs of a key may run concurrently: 1–1,000,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub concurrency: Option<u32>,
    /// How many jobs of a key may start in a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateBody>,
    /// Where a job says how many tokens each start of it takes: a JSON pointer into params such as `/recipients`, or
    /// `attributes:NAME`. It is a whole number from 0 to `burst`, 1 if it is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub units: Option<String>,
    /// What happens to a new job whose key is full; `wait` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<LimitWhenFull>)]
    pub when_full: Option<WhenFull>,
}

/// A limit.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Limit)]
pub struct LimitView {
    /// Its name.
    pub name: String,
    /// How it was set.
    pub limit: LimitBody,
    /// Where it comes from.
    #[serde(default)]
    #[schema(value_type = LimitSource, required = true)]
    pub source: String,
    /// How many jobs wait for it.
    #[serde(default)]
    #[schema(required = true)]
    pub waiting: u64,
    /// The fullest keys: those for which most jobs wait come first. Not in lists, nor for tokens that may not read payloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<Vec<LimitKeyView>>,
    /// `keys` if the caller may not see them: they are parts of params. That needs the verb `read_payload`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Option<Vec<Withheld>>)]
    pub withheld: Vec<String>,
}

/// A key of a limit.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = LimitKey)]
pub struct LimitKeyView {
    /// The value that its jobs have in common. Several parts are a JSON array; empty if a job has no such value.
    pub key: String,
    /// How many of its jobs wait.
    pub waiting: u64,
    /// How many may be claimed.
    pub available: u32,
    /// How many run.
    pub running: u32,
    /// A handler holds the key until then: none of its jobs starts before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_until: Option<String>,
}

/// How many keys to show.
#[derive(Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct LimitQuery {
    /// 1–1000; 20 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1_000)]
    pub keys: Option<u32>,
}

/// A limit that was removed.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = RemovedLimit)]
pub struct RemovedLimitView {
    /// Its name.
    pub name: String,
    /// Always true.
    pub removed: bool,
}

impl LimitBody {
    /// Makes the limit. An error begins with the field.
    pub fn into_limit(self, name: Name, source: Source) -> Result<Limit, String> {
        let MatchBody { queue, handler } = self.matches.unwrap_or_default();
        let globs = |field: &str, text: Option<String>| {
            let glob = text
                .map(Glob::try_from)
                .transpose()
                .map_err(|error| format!("match.{field}: {error}"))?;
            Ok::<_, String>(glob.into_iter().collect())
        };
        let key = match self.key {
            None => Vec::new(),
            Some(KeyBody::One(part)) => vec![part],
            Some(KeyBody::Several(parts)) => parts,
        };
        let parts = key.into_iter().map(|part| {
            let parsed = KeyPart::parse(part);
            parsed.map_err(|error| format!("key: {error}"))
        });
        let units = self
            .units
            .map(KeyPart::parse)
            .transpose()
            .map_err(|error| format!("units: {error}"))?;
        if units.is_some() && self.rate.is_none() {
            return Err("units: needs a rate".to_owned());
        }
        let limit = Limit {
            name,
            matches: Scope {
                queues: globs("queue", queue)?,
                handlers: globs("handler", handler)?,
            },
            key: parts.collect::<Result<_, _>>()?,
            concurrency: self.concurrency,
            rate: self.rate.map(|rate| Rate {
                count: rate.count,
                per_seconds: rate.per_seconds,
                burst: rate.burst.unwrap_or(rate.count),
                units,
            }),
            when_full: self.when_full.unwrap_or_default(),
            source,
        };
        limit.check().map_err(|error| error.to_string())?;
        Ok(limit)
    }

    /// Says which jobs it concerns: `queue mail*, handler send`.
    pub fn jobs_in_words(&self) -> String {
        let MatchBody { queue, handler } = self.matches.clone().unwrap_or_default();
        let queue = queue.map(|glob| format!("queue {glob}"));
        let handler = handler.map(|glob| format!("handler {glob}"));
        let parts: Vec<String> = queue.into_iter().chain(handler).collect();
        if parts.is_empty() {
            return "all jobs".to_owned();
        }
        parts.join(", ")
    }

    /// Says what jobs of a key have in common: `/customer, attributes:region`. Empty if all jobs have the same key.
    pub fn key_in_words(&self) -> String {
        match &self.key {
            None => String::new(),
            Some(KeyBody::One(part)) => part.clone(),
            Some(KeyBody::Several(parts)) => parts.join(", "),
        }
    }

    /// Says what happens to a new job whose key is full.
    pub fn when_full_in_words(&self) -> &'static str {
        match self.when_full.unwrap_or_default() {
            WhenFull::Wait => "jobs wait",
            WhenFull::Refuse => "new jobs are refused",
            WhenFull::ReplaceWaiting => "a new job replaces those that wait",
            WhenFull::CancelRunning => "a new job cancels those that run",
        }
    }

    /// Says how many jobs of a key may run or start: `3 at a time, 100 in 1m, 10 together, counted by /recipients`.
    pub fn allowed_in_words(&self) -> String {
        let count = |jobs: u32| pretty::count(jobs.into());
        let at_once = self
            .concurrency
            .map(|jobs| format!("{} at a time", count(jobs)));
        let in_time = self.rate.map(|rate| {
            let ms = u64::from(rate.per_seconds) * 1_000;
            let time = Seconds { ms }.to_text();
            let larger = rate.burst.filter(|burst| *burst != rate.count);
            let burst = larger.map(|larger| format!(", {} together", count(larger)));
            format!(
                "{} in {time}{}",
                count(rate.count),
                burst.unwrap_or_default()
            )
        });
        let units = self
            .units
            .as_ref()
            .map(|units| format!("counted by {units}"));
        let parts: Vec<String> = at_once.into_iter().chain(in_time).chain(units).collect();
        parts.join(", ")
    }
}

impl From<Limit> for LimitBody {
    fn from(limit: Limit) -> Self {
        let Scope { queues, handlers } = limit.matches;
        let first = |globs: Vec<Glob>| globs.into_iter().next().map(String::from);
        let matches = MatchBody {
            queue: first(queues),
            handler: first(handlers),
        };
        let mut parts: Vec<String> = limit.key.into_iter().map(String::from).collect();
        let units = limit.rate.as_ref().and_then(|rate| rate.units.clone());
        Self {
            matches: Some(matches).filter(|it| *it != MatchBody::default()),
            key: match parts.len() {
                0 => None,
                1 => parts.pop().map(KeyBody::One),
                _ => Some(KeyBody::Several(parts)),
            },
            concurrency: limit.concurrency,
            rate: limit.rate.map(|rate| RateBody {
                count: rate.count,
                per_seconds: rate.per_seconds,
                burst: Some(rate.burst),
            }),
            units: units.map(String::from),
            when_full: Some(limit.when_full),
        }
    }
}

impl LimitView {
    /// Shows a limit that so many jobs wait for now, with some of its keys.
    pub fn new(
        kept: KeptLimit,
        waiting: u64,
        keys: Option<Vec<(String, KeyUse)>>,
        now: Time,
    ) -> Self {
        let keys = keys.map(|keys| {
            let keys = keys.into_iter().map(|(key, used)| LimitKeyView {
                key,
                waiting: used.waiting,
                available: used.reserved,
                running: used.running,
                held_until: used.is_held(now).then(|| used.held_until.to_rfc3339()),
            });
            keys.collect()
        });
        Self {
            name: kept.limit.name.to_string(),
            source: kept.limit.source.to_string(),
            limit: kept.limit.into(),
            waiting,
            keys,
            withheld: Vec::new(),
        }
    }
}
