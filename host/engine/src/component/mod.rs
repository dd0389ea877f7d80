//! Components: what is deployed. A manifest has the limits, grants and schedules of its handlers; each deploy is a revision.

mod apply;
mod command;
mod refusal;
pub mod tables;

use std::collections::BTreeMap;

use host_core::handler::{DirGrant, HandlerInfo, Limits};
use host_core::http_grant::HttpGrant;
use host_core::jobs_grant::JobsGrant;
use host_core::name::Name;
use host_core::policy::{Backoff, Policy, RetentionChoice};
use host_core::seconds::Seconds;
use host_core::state::StateGrant;
use host_core::tcp_grant::TcpGrant;
use host_core::time::Time;
use serde::{Deserialize, Serialize};

use crate::schedule::Schedule;

pub use self::command::*;
pub use self::refusal::*;

/// What a handler may access besides its params. Empty by default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grants {
    /// Names of environment variables of the host process that the guest sees.
    pub env: Vec<String>,
    /// Directories the guest may read.
    pub read_dirs: Vec<DirGrant>,
    /// Requests that the guest may make.
    pub http: Vec<HttpGrant>,
    /// Servers that the guest may connect to.
    pub tcp: Vec<TcpGrant>,
    /// Databases that the guest may query.
    pub sql: Vec<TcpGrant>,
    /// Jobs that the guest may enqueue.
    pub jobs: Vec<JobsGrant>,
    /// State that the guest may keep.
    pub state: Option<StateGrant>,
    /// Names of secrets that the guest may see.
    pub secrets: Vec<String>,
    /// Limits whose keys the guest may hold.
    pub hold: Vec<Name>,
    /// Webhooks that the guest may let its jobs notify.
    pub notify: Vec<Name>,
}

/// The pauses between attempts, as written in a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BackoffSection {
    /// The pause after the first attempt, in seconds; it doubles with each further one.
    pub base_seconds: Seconds,
    /// The longest pause, in seconds.
    pub max_seconds: Seconds,
}

impl Default for BackoffSection {
    fn default() -> Self {
        Backoff::default().into()
    }
}

impl From<Backoff> for BackoffSection {
    fn from(Backoff { base_ms, max_ms }: Backoff) -> Self {
        Self {
            base_seconds: Seconds { ms: base_ms },
            max_seconds: Seconds { ms: max_ms },
        }
    }
}

impl From<BackoffSection> for Backoff {
    fn from(section: BackoffSection) -> Self {
        Self {
            base_ms: section.base_seconds.ms,
            max_ms: section.max_seconds.ms,
        }
    }
}

/// The scratch directory, as written in a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScratchSection {
    /// Its size, in MiB; 0 for none.
    pub mib: u64,
}

/// Limits and grants as written in a manifest. If the handler does not set a value, the component's value
/// applies, then the default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ManifestSection {
    /// Linear memory, in MiB.
    pub memory_mib: Option<u64>,
    /// CPU budget, in wasmtime's fuel.
    pub fuel: Option<u64>,
    /// Time limit, in seconds; fractions are allowed.
    pub timeout_seconds: Option<Seconds>,
    /// Cancel grace, in seconds; fractions are allowed.
    pub grace_seconds: Option<Seconds>,
    /// The largest result, in KiB.
    pub result_kib: Option<u64>,
    /// The most log that is kept, in KiB.
    pub log_kib: Option<u64>,
    /// A directory of each attempt alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scratch: Option<ScratchSection>,
    /// The size of all artifacts of an attempt together, in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact_mib: Option<u64>,
    /// The most steps of a job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// The most attempts of a job that sets none, including the first.
    pub max_attempts: Option<u32>,
    /// The pauses between attempts.
    pub backoff: Option<BackoffSection>,
    /// How long jobs are kept after they have ended, in seconds.
    pub retention_seconds: Option<Seconds>,
    /// How long discarded jobs are kept, in seconds.
    pub retention_discarded_seconds: Option<Seconds>,
    /// Names of environment variables that the guest sees.
    pub env: Option<Vec<String>>,
    /// Directories that the guest may read.
    pub read_dirs: Option<Vec<DirGrant>>,
    /// Requests to HTTP servers that the guest may make.
    pub http: Option<Vec<HttpGrant>>,
    /// Servers that the guest may connect to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp: Option<Vec<TcpGrant>>,
    /// Databases that the guest may query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sql: Option<Vec<TcpGrant>>,
    /// Jobs that the guest may enqueue.
    pub jobs: Option<Vec<JobsGrant>>,
    /// State that the guest may keep.
    pub state: Option<StateGrant>,
    /// Names of secrets that the guest may see.
    pub secrets: Option<Vec<String>>,
    /// Limits whose keys the guest may hold.
    pub hold: Option<Vec<Name>>,
    /// Webhooks of the configuration that jobs of the guest may notify.
    pub notify: Option<Vec<Name>>,
}

/// A schedule as written in a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleSection {
    pub name: Name,
    /// The fields that the API takes.
    #[serde(flatten)]
    pub fields: serde_json::Map<String, serde_json::Value>,
}

/// The manifest beside a component: its name, limits, grants and schedules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Manifest {
    /// The component's name; by default the file name without its extension.
    pub name: Option<Name>,
    /// For all handlers of the component.
    pub defaults: ManifestSection,
    /// For single handlers.
    pub handlers: BTreeMap<Name, ManifestSection>,
    /// Schedules, which come and go with the component.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub schedule: Vec<ScheduleSection>,
}

impl Manifest {
    pub fn limits(&self, name: &Name) -> Limits {
        let mut limits = Limits::default();
        for section in [Some(&self.defaults), self.handlers.get(name)]
            .into_iter()
            .flatten()
        {
            section.narrow(&mut limits);
        }
        limits
    }

    /// Returns the policy of jobs of the handler `name` that set nothing else. [`Manifest::retention`] says how long
    /// they are kept.
    pub fn policy(&self, name: &Name) -> Policy {
        let mut policy = Policy::default();
        let own = self.handlers.get(name);
        for section in [Some(&self.defaults), own].into_iter().flatten() {
            policy.max_attempts = section.max_attempts.unwrap_or(policy.max_attempts);
            policy.backoff = section.backoff.map_or(policy.backoff, Backoff::from);
        }
        policy
    }

    /// Returns how long jobs of the handler `name` are kept, unless they or their queue decide.
    pub fn retention(&self, name: &Name) -> RetentionChoice {
        let own = self.handlers.get(name).map(ManifestSection::retention);
        own.unwrap_or_default().or(self.defaults.retention())
    }

    /// Returns the grants of the handler `name`. A list that the handler sets replaces the
    /// component's list.
    pub fn grants(&self, name: &Name) -> Grants {
        Grants {
            env: self.set(name, |it| it.env.as_ref()).unwrap_or_default(),
            read_dirs: self
                .set(name, |it| it.read_dirs.as_ref())
                .unwrap_or_default(),
            http: self.set(name, |it| it.http.as_ref()).unwrap_or_default(),
            tcp: self.set(name, |it| it.tcp.as_ref()).unwrap_or_default(),
            sql: self.set(name, |it| it.sql.as_ref()).unwrap_or_default(),
            jobs: self.set(name, |it| it.jobs.as_ref()).unwrap_or_default(),
            state: self.set(name, |it| it.state.as_ref()),
            secrets: self.set(name, |it| it.secrets.as_ref()).unwrap_or_default(),
            hold: self.set(name, |it| it.hold.as_ref()).unwrap_or_default(),
            notify: self.set(name, |it| it.notify.as_ref()).unwrap_or_default(),
        }
    }

    /// Returns what the handler `name` sets, or what the component sets.
    fn set<T: Clone>(
        &self,
        name: &Name,
        value: impl Fn(&ManifestSection) -> Option<&T>,
    ) -> Option<T> {
        let own = self.handlers.get(name).and_then(&value);
        own.or_else(|| value(&self.defaults)).cloned()
    }
}

impl ManifestSection {
    fn retention(&self) -> RetentionChoice {
        let ms = |given: Option<Seconds>| given.map(|seconds| seconds.ms);
        RetentionChoice {
            ms: ms(self.retention_seconds),
            discarded_ms: ms(self.retention_discarded_seconds),
        }
    }

    fn narrow(&self, limits: &mut Limits) {
        let set = |target: &mut u64, value: Option<u64>, unit: u64| {
            if let Some(value) = value {
                *target = value.saturating_mul(unit);
            }
        };
        set(&mut limits.memory_bytes, self.memory_mib, 1 << 20);
        set(
            &mut limits.timeout_ms,
            self.timeout_seconds.map(|s| s.ms),
            1,
        );
        set(&mut limits.grace_ms, self.grace_seconds.map(|s| s.ms), 1);
        set(&mut limits.result_bytes_max, self.result_kib, 1 << 10);
        set(&mut limits.log_bytes_max, self.log_kib, 1 << 10);
        set(
            &mut limits.scratch_bytes,
            self.scratch.map(|it| it.mib),
            1 << 20,
        );
        set(&mut limits.artifact_bytes, self.artifact_mib, 1 << 20);
        set(&mut limits.steps_max, self.steps, 1);
        limits.fuel = self.fuel.or(limits.fuel);
    }
}

/// SHA-256 of a component's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Digest(pub [u8; 32]);

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Who vouches for the bytes of a component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    /// The id of the key, as minisign shows it.
    pub key: String,
    /// The signature, as minisign writes it.
    pub text: String,
}

/// One immutable version of a component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revision {
    pub component: Name,
    /// 1 for the first revision.
    pub revision: u32,
    /// The digest of the bytes.
    pub digest: Digest,
    pub manifest: Manifest,
    pub handlers: Vec<HandlerInfo>,
    pub deployed_at: Time,
    /// The signature that the host that deployed it has checked, if it asks for signatures.
    #[serde(default)]
    pub signature: Option<Signature>,
    /// The schedules of the manifest, as they were checked when it was deployed.
    #[serde(default)]
    pub schedules: Vec<Schedule>,
    #[serde(default)]
    pub release: Release,
}

/// Who deployed a revision, and what they call it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// The name of a token, else the principal; empty if the host asks for no tokens.
    pub by: String,
    pub label: Option<String>,
    pub note: Option<String>,
}

/// The longest label of a release, in characters.
pub const LABEL_CHARS_MAX: usize = 64;

/// The longest note about a release, in characters.
pub const NOTE_CHARS_MAX: usize = 500;

impl Revision {
    /// Returns whether a deploy would change nothing: the same bytes and manifest, signed by the same key or by none.
    pub fn is_same(
        &self,
        digest: Digest,
        manifest: &Manifest,
        signature: Option<&Signature>,
    ) -> bool {
        let signer = self.signature.as_ref().map(|it| &it.key);
        let is_signed = signature.is_none_or(|new| signer == Some(&new.key));
        self.digest == digest && self.manifest == *manifest && is_signed
    }
}
