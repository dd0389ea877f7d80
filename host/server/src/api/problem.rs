//! How requests are refused: one closed list of codes, each with its status, its meaning and what
//! to do next, and the problem document (RFC 9457) that carries one. `docs/errors.md` is this list.

pub mod failures;
pub mod wires;

#[cfg(test)]
mod tests;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use host_core::failure::FAILURE_KINDS;
use host_core::job::State;
use host_core::rejection::Rejection;
use host_store::StoreError;
use serde::Serialize;
use utoipa::ToSchema;

use host_dispatch::SubmitError;

/// How soon a request that met a busy host may be repeated, in seconds.
const RETRY_AFTER_SECONDS: u32 = 1;

/// What one code means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The stable code.
    pub code: &'static str,
    /// The HTTP status; `None` for failures of attempts, which are no refusals.
    pub status: Option<u16>,
    /// A few words, the same for every occurrence.
    pub title: &'static str,
    /// What it means.
    pub explanation: &'static str,
    /// What to do next.
    pub next: &'static str,
}

macro_rules! codes {
    ($($variant:ident $status:literal $code:literal, $title:literal, $explanation:literal, $next:literal;)+) => {
        /// Why a request is refused. Codes are stable: one cause keeps one code.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Code {
            $(#[doc = $explanation] $variant,)+
        }

        /// All codes, in the order of `docs/errors.md`.
        pub const CODES: &[Code] = &[$(Code::$variant),+];

        impl Code {
            /// Returns what the code means.
            pub const fn explanation(self) -> &'static Explanation {
                match self {
                    $(Self::$variant => &Explanation {
                        code: $code,
                        status: Some($status),
                        title: $title,
                        explanation: $explanation,
                        next: $next,
                    },)+
                }
            }
        }
    };
}

codes! {
    InvalidJson 400 "invalid_json", "Not JSON",
        "The body is not one JSON document: it does not parse, repeats a key of an object, is nested deeper than 127 levels or has a number that no double holds.",
        "Correct the document at the place the detail names.";
    InvalidRequest 422 "invalid_request", "Not a request this path takes",
        "The document is JSON, but a field is unknown, missing, of another type or out of its range.",
        "Correct the field the detail names; /api/v1/openapi.json has all fields.";
    InvalidQuery 400 "invalid_query", "Not a query this path takes",
        "A parameter of the query string is unknown, of another type or out of its range.",
        "Correct the parameter the detail names; /api/v1/openapi.json has all parameters.";
    InvalidName 400 "invalid_name", "Not a name",
        "A name in the path is not made of 1 to 128 characters out of A-Z a-z 0-9 _ . : / -.",
        "Correct the name; write / in a name as %2F.";
    InvalidParams 422 "invalid_params", "Params do not fit the handler",
        "The params violate the JSON Schema that the handler states for them.",
        "Correct the params at the places the detail names; `host handler show NAME` prints the schema.";
    HandlerNotFound 422 "handler_not_found", "No such handler",
        "No deployed component has a handler of this name, and no runner is configured for it. The status is 404 where the path names the handler.",
        "Deploy the component that has it, or correct the name; `host handler ls` lists the handlers.";
    RunnerNotFound 404 "runner_not_found", "No such runner",
        "No pool of foreign runners has this name.",
        "`host runner ls` lists them; each is a table protocol.rrq.runners.NAME of the configuration.";
    DependencyCycle 422 "dependency_cycle", "Jobs wait for each other",
        "The jobs depend on each other in a circle, so none of them could ever start.",
        "Take one of the references along the path in the detail out of its depends_on or dependencies.";
    UnknownPrerequisite 422 "unknown_prerequisite", "Unknown prerequisite",
        "A job to wait for is one that this host does not know, or no longer does.",
        "Name a job that exists; ended jobs are kept 7 days.";
    TooManyDependents 422 "too_many_dependents", "Too many jobs wait for one",
        "At most 10000 jobs may depend on the same job.",
        "Put a job between them that the others depend on.";
    TooManyJobs 413 "too_many_jobs", "Too many jobs in one request",
        "An array may have at most 1000 jobs.",
        "Split the array.";
    BodyTooLarge 413 "body_too_large", "Body too large",
        "The body is larger than this path takes: 8 MiB of jobs, 33 MiB of component with manifest, of which the manifest has 64 KiB, 64 KiB elsewhere.",
        "Send less at once; params can name data instead of holding it.";
    UnsupportedMediaType 415 "unsupported_media_type", "Unsupported media type",
        "Requests that change something carry application/json, or for components application/wasm or multipart/form-data, without a content encoding.",
        "Set the Content-Type header and send the body uncompressed.";
    InvalidMultipart 400 "invalid_multipart", "Not a multipart body",
        "The body is not a multipart document with a part `component` and perhaps a part `manifest`.",
        "Send the two parts by these names, each at most once.";
    BodyTimeout 408 "body_timeout", "Body came too slowly",
        "The body was not complete 30 seconds after its header.",
        "Send the request again over a better connection.";
    HostRefused 403 "host_refused", "Host header refused",
        "The Host header names neither this machine's loopback nor the address the host listens on: a web page may be behind the request.",
        "Use http://127.0.0.1:PORT or http://localhost:PORT.";
    OriginRefused 403 "origin_refused", "Web pages are refused",
        "The request comes from a web page of another origin.",
        "Use the command line or a program; pages of other origins have no access.";
    NotFound 404 "not_found", "No such path",
        "The API has no such path.",
        "/api/v1/openapi.json lists all paths.";
    MethodNotAllowed 405 "method_not_allowed", "Method not allowed",
        "The path exists but not with this method.",
        "Use a method of the Allow header.";
    JobNotFound 404 "job_not_found", "No such job",
        "No job has this id or an id that starts so.",
        "`host job ls` lists the jobs; ended jobs are kept 7 days.";
    AmbiguousId 409 "ambiguous_id", "More than one job",
        "The ids of several jobs start so.",
        "Write more of the id.";
    JobTerminal 409 "job_terminal", "The job has ended",
        "The job has ended already in a way that does not allow this.",
        "Read the job; a new job does it again.";
    JobNotTerminal 409 "job_not_terminal", "The job has not ended",
        "Only jobs that are discarded or cancelled can be run again.",
        "Wait for its end or cancel it first.";
    JobForeign 409 "job_foreign", "A job of another orchestrator",
        "The job was executed for another orchestrator; what is kept here is its history.",
        "Ask the orchestrator that the job's wire and external_id name to run it again.";
    StaleLease 409 "stale_lease", "Not the current lease",
        "The message is about a lease that is not the current one, is not acknowledged or is over.",
        "Stop the work: somebody else does it or has done it.";
    QueueNotFound 404 "queue_not_found", "No such queue",
        "No queue of this name has or had jobs or is paused.",
        "`host queue ls` lists the queues; one comes to be with its first job.";
    ComponentNotFound 404 "component_not_found", "No such component",
        "No component of this name is deployed.",
        "`host component ls` lists the components.";
    RevisionNotFound 404 "revision_not_found", "No such revision",
        "The component has no revision of this number.",
        "`host component show NAME` lists its revisions.";
    HandlerOwned 409 "handler_owned", "Handler of another component",
        "A handler of the component has the name of one that another component has.",
        "Rename the handler, or remove the other component.";
    ComponentInUse 409 "component_in_use", "Component in use",
        "Jobs that have not ended need handlers of the component.",
        "Wait for these jobs or cancel them, then remove the component.";
    ComponentInvalid 422 "component_invalid", "Not a component",
        "The bytes are not a WebAssembly component, or not a valid one.",
        "Build for wasm32-wasip2; a core module or a compiled file is not taken.";
    ComponentTooLarge 413 "component_too_large", "Component too large",
        "The component's file is larger than 32 MiB.",
        "Build with optimization and strip names.";
    ComponentWrongWorld 422 "component_wrong_world", "Not a component of jobs",
        "The component does not export what the world host:jobs/job asks for.",
        "Build it with the guest SDK or against the WIT package host:jobs@1.0.0.";
    ComponentForbiddenImport 422 "component_forbidden_import", "Forbidden import",
        "The component imports something that no component gets here.",
        "Build it without the import that the detail names.";
    CompileFailed 422 "compile_failed", "Cannot compile",
        "The component could not be compiled within the limits of the compiling process.",
        "Make it smaller or less deeply nested; the detail says which limit it met.";
    DescribeFailed 422 "describe_failed", "Cannot describe",
        "The component was asked for its handlers and did not answer as it should.",
        "Correct its `describe`; the detail says how it ended.";
    SchemaInvalid 422 "schema_invalid", "Schema not usable",
        "A handler's JSON Schema is none, is larger than 64 KiB, nested deeper than 32 levels or refers to files or addresses.",
        "Correct the schema of the handler that the detail names.";
    ManifestInvalid 422 "manifest_invalid", "Manifest not usable",
        "The manifest is not TOML, has an unknown key, a value out of range, a handler that the component does not have or another component's name.",
        "Correct the key the detail names.";
    GrantMissing 422 "grant_missing", "Grant not possible",
        "The manifest grants something that this machine does not have.",
        "Create it, or take the grant out of the manifest.";
    HeroOff 409 "hero_off", "Hero is not configured",
        "The host is configured for no Redis of Hero dispatchers, or for no folder of their log files.",
        "Set protocol.hero.url (HOST_HERO_URL) or protocol.hero.log_dir (HOST_HERO_LOG_DIR) and restart the host.";
    HeroRedisAway 503 "hero_redis_away", "Redis away",
        "The Redis of Hero dispatchers cannot be reached or refuses what it is told. Whether the request was carried out is not known.",
        "Start Redis or correct protocol.hero.url, and repeat the request; with an id a repeated submission is safe.";
    HeroJobNotFound 404 "hero_job_not_found", "No such Hero job",
        "The Redis of Hero dispatchers has no job of this id.",
        "`host hero ls` lists the jobs; write their ids in full.";
    HeroJobEnded 409 "hero_job_ended", "The Hero job has ended",
        "The job has ended already in a way that does not allow this.",
        "Look at it with `host hero status ID`; a new job does it again.";
    HeroJobBusy 409 "hero_job_busy", "The Hero job is being run",
        "A worker may be at the job, or it has just changed; queued again it could run twice.",
        "Wait for its end or stop it; `force` queues it again all the same if its worker is gone.";
    HeroLogMissing 404 "hero_log_missing", "No log file",
        "The job names no log file, has written none on this host, or the file is not where log files may be.",
        "Submit the job with a log_path below protocol.hero.log_dir, and ask the host that runs it.";
    Busy 503 "busy", "Busy",
        "As many requests wait as the host takes at once; nothing of this one was done.",
        "Repeat it after the time in the Retry-After header.";
    Stopping 503 "stopping", "Stopping",
        "The host stops. Whether the request was carried out is not known.",
        "Look when it is there again before you repeat it; with a unique_key a repeated enqueue is safe.";
    TimedOut 504 "timed_out", "No answer in time",
        "The host did not answer in time. Whether the request was carried out is not known.",
        "Look before you repeat it; with a unique_key a repeated enqueue is safe.";
    StoreFull 507 "store_full", "Disk full",
        "There is no room on the disk; nothing of this request was kept.",
        "Free space where the data directory is and repeat the request.";
    StoreBroken 500 "store_broken", "Store broken",
        "The store cannot read or write.",
        "Read the host's log; check the disk and restart the host.";
    StoreDamaged 500 "store_damaged", "Store damaged",
        "What is on disk is not what was written.",
        "Restore the data directory from a copy.";
    Internal 500 "internal", "A mistake in the host",
        "The host made a mistake that it did not expect.",
        "Report it with the host's log.";
}

/// Returns what each code of the API means, and then each kind of failure.
pub fn all() -> impl Iterator<Item = &'static Explanation> {
    let codes = CODES.iter().map(|code| code.explanation());
    codes.chain(FAILURE_KINDS.into_iter().map(failures::explain))
}

/// Returns what a code of the API or a kind of failure means, `None` for a text that is neither.
pub fn explain(code: &str) -> Option<&'static Explanation> {
    all().find(|known| known.code == code)
}

/// A refusal on its way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    code: Code,
    status: u16,
    detail: String,
    state: Option<State>,
}

/// The problem document of a refusal (RFC 9457).
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(super) struct ProblemView<'a> {
    /// `urn:host:problem:` and the code.
    r#type: String,
    /// A few words, the same for every occurrence of the code.
    title: &'a str,
    /// The HTTP status.
    status: u16,
    /// What is wrong with this request.
    detail: &'a str,
    /// The stable code: see `docs/errors.md`.
    code: &'a str,
    /// What to do next.
    next: &'a str,
    /// The job's state, where that is the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'a str>,
}

impl Problem {
    /// Makes a refusal for the reason `code`, with what is wrong with this request.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            code,
            status: code.explanation().status.unwrap_or(500),
            detail: detail.into(),
            state: None,
        }
    }

    /// Returns the code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// Returns what is wrong with this request.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// Answers with 404: what is missing is what the path names.
    pub(super) fn in_path(mut self) -> Self {
        self.status = StatusCode::NOT_FOUND.as_u16();
        self
    }

    /// Puts the place it is about before the detail.
    pub(super) fn at(mut self, place: &str) -> Self {
        self.detail = format!("{place}: {}", self.detail);
        self
    }
}

impl From<Rejection> for Problem {
    fn from(rejection: Rejection) -> Self {
        let code = match &rejection {
            Rejection::UnknownJob(_) => Code::JobNotFound,
            Rejection::Stale
            | Rejection::LeaseExpired
            | Rejection::NotAcknowledged
            | Rejection::CancelNotRequested => Code::StaleLease,
            Rejection::Terminal(_) => Code::JobTerminal,
            Rejection::WrongState(_) => Code::JobNotTerminal,
            Rejection::Foreign => Code::JobForeign,
            Rejection::UnknownPrerequisite(_) => Code::UnknownPrerequisite,
            Rejection::TooManyDependents { .. } => Code::TooManyDependents,
            Rejection::UnknownQueue(_) => Code::QueueNotFound,
            Rejection::UnknownComponent(_) => Code::ComponentNotFound,
            Rejection::UnknownRevision { .. } => Code::RevisionNotFound,
            Rejection::HandlerOwned { .. } => Code::HandlerOwned,
            Rejection::ComponentInUse { .. } => Code::ComponentInUse,
        };
        let state = match &rejection {
            Rejection::Terminal(state) | Rejection::WrongState(state) => Some(*state),
            _ => None,
        };
        Self {
            state,
            ..Self::new(code, rejection.to_string())
        }
    }
}

impl From<SubmitError> for Problem {
    fn from(error: SubmitError) -> Self {
        let code = match error {
            SubmitError::Rejected(rejection) => return rejection.into(),
            SubmitError::StoreFull => Code::StoreFull,
            SubmitError::Busy => Code::Busy,
            SubmitError::Stopping => Code::Stopping,
        };
        Self::new(code, error.to_string())
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let code = match &error {
            StoreError::Full => Code::StoreFull,
            StoreError::Broken { .. } | StoreError::Newer { .. } => Code::StoreBroken,
            StoreError::Damaged { .. } => Code::StoreDamaged,
        };
        tracing::error!(%error, "a request met a failure of the store");
        Self::new(code, error.to_string())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let meaning = self.code.explanation();
        let document = ProblemView {
            r#type: format!("urn:host:problem:{}", meaning.code),
            title: meaning.title,
            status: self.status,
            detail: &self.detail,
            code: meaning.code,
            next: meaning.next,
            state: self.state.map(State::as_str),
        };
        let mut response = Response::new(Body::from(
            serde_json::to_vec(&document).unwrap_or_default(),
        ));
        *response.status_mut() =
            StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        if matches!(self.code, Code::Busy | Code::Stopping | Code::HeroRedisAway) {
            headers.insert(RETRY_AFTER, RETRY_AFTER_SECONDS.into());
        }
        response
    }
}
