//! A handler as the API shows it, with its limits, grants and costs.

use host_core::cost::{Cost, RevisionCost, Spread};
use host_core::grant_words;
use host_core::handler::{DirGrant, Limits};
use host_core::http_grant::HttpGrant;
use host_core::jobs_grant::JobsGrant;
use host_core::name::Name;
use host_core::policy::Backoff;
use host_core::seconds::Seconds;
use host_core::state::StateGrant;
use host_core::tcp_grant::TcpGrant;
use host_engine::component::Grants;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

/// A handler, as its component's current revision has it.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Handler)]
pub struct HandlerView {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: Option<String>,
    /// The component it comes from.
    #[serde(default)]
    #[schema(required = true)]
    pub component: String,
    /// Which revision of it.
    #[serde(default)]
    #[schema(required = true)]
    pub revision: u32,
    /// What an attempt may use.
    pub limits: LimitsView,
    /// What an attempt may access besides its params.
    #[serde(default)]
    #[schema(required = true)]
    pub grants: GrantsView,
    /// The most attempts of a job that sets no number, including the first.
    #[serde(default)]
    #[schema(required = true)]
    pub max_attempts: u32,
    /// The pauses between attempts.
    #[serde(default)]
    #[schema(required = true)]
    pub backoff: BackoffView,
    /// How long its jobs are kept, in seconds, if the manifest says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    pub retention_seconds: Option<Seconds>,
    /// How long its discarded jobs are kept, in seconds, if the manifest says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    pub retention_discarded_seconds: Option<Seconds>,
    /// What its attempts in this host's cells have cost, by revision, the one that ran last first. Only
    /// revisions that ran in the last day. After a restart it begins with the newest 100,000 attempts
    /// that the store has.
    #[serde(default)]
    #[schema(required = true)]
    pub cost: Vec<RevisionCostView>,
    /// JSON Schema of its params; left out of lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub params_schema: Option<Box<RawValue>>,
    /// JSON Schema of its result; left out of lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub result_schema: Option<Box<RawValue>>,
}

/// What an attempt may use.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Limits)]
pub struct LimitsView {
    /// Linear memory.
    pub memory_bytes: u64,
    /// CPU budget; if absent, it follows from the time limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fuel: Option<u64>,
    /// Time limit.
    pub timeout_ms: u64,
    /// How long a cancelled guest may take to stop by itself.
    pub grace_ms: u64,
    /// The largest result.
    pub result_bytes_max: u64,
    /// How much log is kept.
    pub log_bytes_max: u64,
    /// The size of the scratch directory; absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scratch_bytes: Option<u64>,
    /// The size of all artifacts of an attempt together; absent if it may keep none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_bytes: Option<u64>,
    /// The most steps of a job; absent if it may have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps_max: Option<u64>,
}

/// The pauses between the attempts of a job. Each is up to 20 % shorter or longer.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = Backoff)]
pub struct BackoffView {
    /// The pause after the first attempt; it doubles with each further one.
    pub base_ms: u64,
    /// The longest pause.
    pub max_ms: u64,
}

/// What an attempt may access.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = Grants)]
pub struct GrantsView {
    /// Names of environment variables.
    pub env: Vec<String>,
    /// Directories to read.
    pub read_dirs: Vec<DirView>,
    /// Requests to HTTP servers.
    #[serde(default)]
    #[schema(required = true)]
    pub http: Vec<HttpGrantView>,
    /// Connections to servers.
    #[serde(default)]
    #[schema(required = true)]
    pub tcp: Vec<TcpGrantView>,
    /// Databases to query.
    #[serde(default)]
    #[schema(required = true)]
    pub sql: Vec<TcpGrantView>,
    /// Jobs to enqueue.
    #[serde(default)]
    #[schema(required = true)]
    pub jobs: Vec<JobsGrantView>,
    /// State to keep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<StateGrantView>,
    /// Names of secrets that it may see.
    #[serde(default)]
    #[schema(required = true)]
    pub secrets: Vec<String>,
    /// Limits whose keys it may hold.
    #[serde(default)]
    #[schema(required = true)]
    pub hold: Vec<String>,
    /// Webhooks that the jobs it enqueues may notify.
    #[serde(default)]
    #[schema(required = true)]
    pub notify: Vec<String>,
}

impl GrantsView {
    /// Describes them, one line each.
    pub fn lines(&self) -> Vec<String> {
        let env = self.env.iter().map(|name| grant_words::env(name));
        let dirs = self
            .read_dirs
            .iter()
            .map(|dir| grant_words::dir(&dir.host, &dir.guest));
        let http = self.http.iter().map(|grant| {
            let mut line = grant_words::http(&grant.to, &grant.methods, &grant.paths);
            if let Some(scheme) = &grant.sign {
                line = format!("{line}, signed by {scheme}");
            }
            if let Some(url) = &grant.token_url {
                line = format!("{line}, with access tokens of {url}");
            }
            match &grant.secrets[..] {
                [] => line,
                secrets => format!("{line}, with the secrets {}", secrets.join(", ")),
            }
        });
        let job_grants = self.jobs.iter();
        let jobs = job_grants.map(|grant| grant_words::jobs(&grant.handlers, &grant.queues));
        let state_grants = self.state.iter();
        let state = state_grants.map(|grant| grant_words::state(grant.quota_kib, &grant.shared));
        let secrets = self.secrets.iter().map(|name| grant_words::secret(name));
        let hold = self.hold.iter().map(grant_words::hold);
        let connections = self.tcp.iter().chain(&self.sql).map(TcpGrantView::line);
        let all = env.chain(dirs).chain(http).chain(connections).chain(jobs);
        let notify = self.notify.iter().map(grant_words::notify);
        all.chain(state)
            .chain(secrets)
            .chain(hold)
            .chain(notify)
            .collect()
    }
}

/// State that a handler may keep.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = StateGrant)]
pub struct StateGrantView {
    /// The largest size of a space to which the handler may add, in KiB.
    pub quota_kib: u64,
    /// The spaces that it shares with other handlers.
    pub shared: Vec<String>,
}

/// Jobs that a handler may enqueue.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = JobsGrant)]
pub struct JobsGrantView {
    /// Patterns of their handlers.
    pub handlers: Vec<String>,
    /// Patterns of their queues.
    pub queues: Vec<String>,
}

/// A directory to read.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = DirGrant)]
pub struct DirView {
    /// Where it is on the host.
    pub host: String,
    /// Where the guest sees it.
    pub guest: String,
}

/// Requests to one HTTP server.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = HttpGrant)]
pub struct HttpGrantView {
    /// The server, as `https://api.example.com`.
    pub to: String,
    /// The methods; all if empty.
    pub methods: Vec<String>,
    /// Patterns of paths; all if empty.
    pub paths: Vec<String>,
    /// The names of headers that the host adds.
    pub headers: Vec<String>,
    /// The names of secrets in headers, signatures and requests for access tokens.
    pub secrets: Vec<String>,
    /// How the host signs: `aws-sigv4`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sign: Option<String>,
    /// Where the host gets access tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_url: Option<String>,
}

/// Connections to one server.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = TcpGrant)]
pub struct TcpGrantView {
    /// The name for SQL; null for a connection of the handler's own.
    pub name: Option<String>,
    /// The server and its port, as `db.internal:5432`.
    pub to: String,
    /// When the host begins TLS: `none`, `direct`, `postgres`, `smtp` or `imap`.
    pub tls: String,
    /// The protocol in which the host signs in: `postgres`, `redis` or `smtp`; null if it does not.
    pub login: Option<String>,
    /// As whom.
    pub user: Option<String>,
    /// To which database.
    pub database: Option<String>,
    /// The names of secrets in the password.
    pub secrets: Vec<String>,
}

impl TcpGrantView {
    fn line(&self) -> String {
        let user = self
            .user
            .as_deref()
            .map_or(String::new(), |user| format!(" as {user}"));
        let protocol = self.login.as_ref();
        let login = protocol.map(|protocol| format!("signed in to {protocol}{user}"));
        let line = grant_words::tcp(&self.to, &self.tls, login.as_deref());
        match &self.name {
            Some(name) => grant_words::sql(name, &line),
            None => line,
        }
    }
}

impl From<&TcpGrant> for TcpGrantView {
    fn from(grant: &TcpGrant) -> Self {
        let login = grant.login.as_ref();
        Self {
            name: grant.name.clone(),
            to: grant.to.to_string(),
            tls: grant.tls.as_str().to_owned(),
            login: login.map(|it| it.protocol.as_str().to_owned()),
            user: login.and_then(|it| it.user.clone()),
            database: login.and_then(|it| it.database.clone()),
            secrets: grant.secrets().map(str::to_owned).collect(),
        }
    }
}

/// What the attempts of one revision have cost.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = RevisionCost)]
pub struct RevisionCostView {
    /// The component.
    pub component: String,
    /// Its revision.
    pub revision: u32,
    /// Over the last 55 to 60 minutes; null if none has ended.
    pub last_hour: Option<CostView>,
    /// Over the last 23 to 24 hours.
    pub last_day: CostView,
}

/// What attempts have cost.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Cost)]
pub struct CostView {
    /// How many have ended.
    pub runs: u64,
    /// How many of them failed or were lost. A handler that asked for another attempt has not failed.
    pub failures: u64,
    /// How long one took.
    pub ran_ms: SpreadView,
    /// The fuel of one.
    pub fuel: SpreadView,
    /// The CPU time of one.
    pub cpu_us: SpreadView,
    /// The most linear memory of one.
    pub peak_memory_bytes: SpreadView,
}

/// How values are distributed. The percentiles are at most an eighth above the exact ones.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Spread)]
pub struct SpreadView {
    /// Half of the values are not above it.
    pub p50: u64,
    /// 99 of 100 values are not above it.
    pub p99: u64,
    /// The largest value.
    #[serde(default)]
    #[schema(required = true)]
    pub max: u64,
}

impl From<&Limits> for LimitsView {
    fn from(limits: &Limits) -> Self {
        Self {
            memory_bytes: limits.memory_bytes,
            fuel: limits.fuel,
            timeout_ms: limits.timeout_ms,
            grace_ms: limits.grace_ms,
            result_bytes_max: limits.result_bytes_max,
            log_bytes_max: limits.log_bytes_max,
            scratch_bytes: Some(limits.scratch_bytes).filter(|bytes| *bytes > 0),
            artifact_bytes: Some(limits.artifact_bytes).filter(|bytes| *bytes > 0),
            steps_max: Some(limits.steps_max).filter(|steps| *steps > 0),
        }
    }
}

impl From<Backoff> for BackoffView {
    fn from(Backoff { base_ms, max_ms }: Backoff) -> Self {
        Self { base_ms, max_ms }
    }
}

impl From<&Grants> for GrantsView {
    fn from(grants: &Grants) -> Self {
        let dirs = grants.read_dirs.iter();
        Self {
            env: grants.env.clone(),
            read_dirs: dirs.map(DirView::from).collect(),
            http: grants.http.iter().map(HttpGrantView::from).collect(),
            tcp: grants.tcp.iter().map(TcpGrantView::from).collect(),
            sql: grants.sql.iter().map(TcpGrantView::from).collect(),
            jobs: grants.jobs.iter().map(JobsGrantView::from).collect(),
            state: grants.state.as_ref().map(StateGrantView::from),
            secrets: grants.secrets.clone(),
            hold: grants.hold.iter().map(Name::to_string).collect(),
            notify: grants.notify.iter().map(Name::to_string).collect(),
        }
    }
}

impl From<&StateGrant> for StateGrantView {
    fn from(grant: &StateGrant) -> Self {
        Self {
            quota_kib: grant.quota_kib,
            shared: grant.shared.iter().map(Name::to_string).collect(),
        }
    }
}

impl From<&JobsGrant> for JobsGrantView {
    fn from(grant: &JobsGrant) -> Self {
        Self {
            handlers: grant.handlers.clone(),
            queues: grant.queues.clone(),
        }
    }
}

impl From<&HttpGrant> for HttpGrantView {
    fn from(grant: &HttpGrant) -> Self {
        Self {
            to: grant.to.to_string(),
            methods: grant.methods.clone(),
            paths: grant.paths.clone(),
            headers: grant.headers.keys().cloned().collect(),
            secrets: grant.secrets().map(str::to_owned).collect(),
            sign: grant.sign.as_ref().map(|it| it.scheme.as_str().to_owned()),
            token_url: grant.oauth.as_ref().map(|it| it.token_url.to_string()),
        }
    }
}

impl From<&DirGrant> for DirView {
    fn from(dir: &DirGrant) -> Self {
        Self {
            host: dir.host.clone(),
            guest: dir.guest.clone(),
        }
    }
}

impl From<RevisionCost> for RevisionCostView {
    fn from(cost: RevisionCost) -> Self {
        Self {
            component: cost.component,
            revision: cost.revision,
            last_hour: cost.last_hour.map(Into::into),
            last_day: cost.last_day.into(),
        }
    }
}

impl From<Cost> for CostView {
    fn from(cost: Cost) -> Self {
        Self {
            runs: cost.runs,
            failures: cost.failures,
            ran_ms: cost.ran_ms.into(),
            fuel: cost.fuel.into(),
            cpu_us: cost.cpu_us.into(),
            peak_memory_bytes: cost.peak_memory_bytes.into(),
        }
    }
}

impl From<Spread> for SpreadView {
    fn from(Spread { p50, p99, max }: Spread) -> Self {
        Self { p50, p99, max }
    }
}
