//! Generates `docs/manifest.md` from the keys, defaults and ranges of manifests and compares it.

use std::fmt::Write as _;

use host_cells::deploy::manifest::{self, LOG_KIB_MAX, MEMORY_MIB_MAX, RESULT_KIB_MAX};
use host_core::artifact::ARTIFACT_MIB_MAX;
use host_core::handler::{DirGrant, FUEL_PER_SECOND, Limits, SCRATCH_MIB_MAX};
use host_core::http_grant::{
    REQUESTS_DEFAULT, REQUESTS_MAX, RESPONSE_KIB_DEFAULT, RESPONSE_KIB_MAX, TIMEOUT_MS_DEFAULT,
    TOTAL_MIB_DEFAULT, TOTAL_MIB_MAX,
};
use host_core::jobs_grant::PATTERNS_MAX;
use host_core::policy::{Backoff, MAX_ATTEMPTS, Retention};
use host_core::seconds::Seconds;
use host_core::state::{QUOTA_KIB_DEFAULT, QUOTA_KIB_MAX, SHARED_MAX, StateGrant};
use host_core::step::STEPS_MAX;
use host_core::tcp_grant::{CONNECTIONS_DEFAULT, CONNECTIONS_MAX, IDLE_MS_DEFAULT};
use host_engine::component::{BackoffSection, ManifestSection, ScratchSection};

use crate::published;

const INTRO: &str = "\
# The manifest

Limits and grants of handlers, in a TOML file beside the component: `report.toml` beside `report.wasm`,
or `host deploy --manifest FILE`. An unknown key is an error. Generated from what the host reads;
`cargo xtask test docs --update` updates it.

```toml
";

const KEYS: &str = "\
```

`name` is the component's name; without it, the file's name without its ending. `[defaults]` is for all
handlers of the component, `[handlers.NAME]` for one. A key of a handler takes the place of the default's,
lists too. A job's own `timeout_seconds` can only shorten the time limit, and a cancel's
`grace_seconds` takes the place of the grace; a job's own `max_attempts` takes the place of the handler's. A deploy without a manifest takes back what an earlier one gave;
its answer lists the limits that change.

| key | default | range | what it is |
|---|---|---|---|
";

const EXAMPLE: &str = r#"name = "reports"

[defaults]
memory_mib = 128
timeout_seconds = 300

[handlers.summary]
fuel = 5000000000
grace_seconds = 0.5
result_kib = 4096
log_kib = 256
scratch = { mib = 512 }
artifact_mib = 64
steps = 100
max_attempts = 30
backoff = { base_seconds = 5, max_seconds = 600 }
retention_seconds = 86400
retention_discarded_seconds = 2592000
env = ["LANG"]
read_dirs = [{ host = "/srv/reports", guest = "/reports" }]

[[handlers.charge.http]]
to = "https://api.stripe.com"
methods = ["GET", "POST"]
paths = ["/v1/charges", "/v1/charges/*"]
headers = { authorization = "Bearer {secret:stripe}" }
max_requests = 100
max_response_kib = 256
max_total_mib = 64
timeout_seconds = 10

[[handlers.archive.http]]
to = "https://reports.s3.eu-central-1.amazonaws.com"
sign = { scheme = "aws-sigv4", region = "eu-central-1", service = "s3", key_id = "{secret:aws-key-id}", secret_key = "{secret:aws-secret-key}" }

[[handlers.report.http]]
to = "https://api.example.com"
oauth = { token_url = "https://login.example.com/oauth/token", client_id = "reports", client_secret = "{secret:reports}", scope = "orders.read" }

[[handlers.charge.tcp]]
to = "cache.internal:6379"
tls = "direct"
login = { protocol = "redis", user = "charge", password = "{secret:cache}", database = "3" }
idle_seconds = 30

[[handlers.charge.sql]]
name = "shop"
to = "db.internal:5432"
tls = "postgres"
login = { protocol = "postgres", user = "charge", password = "{secret:shop}", database = "shop", options = "-c statement_timeout=5s", md5 = false }
pool = 4
max_connections = 8
max_total_mib = 1024

[[handlers.charge.jobs]]
handlers = ["receipt", "mail-*"]
queues = ["default", "mail"]

[handlers.charge.state]
quota_kib = 1024
shared = ["rates"]

[[schedule]]
name = "nightly"
when = { cron = "30 2 * * *" }
time_zone = "Europe/Berlin"
job = { handler = "summary", params = { days = 1 } }
"#;

const HTTP: &str = "
## Requests to HTTP servers

Each `[[handlers.NAME.http]]` grants requests to one server; the first whose `to`, `methods` and `paths` fit
a request decides. A handler has no network itself: the host sends the request, if its configuration allows the
server too (`grants.http`), and only to public addresses and `grants.networks`. Redirects are not followed;
the handler sees them and may ask again. A value of `headers` may contain `{secret:NAME}`, which the host
replaces by a secret of its configuration. The handler never sees it, and where a server sends it back
literally, the response shows its name instead. A server that encodes or splits it can still give it away.
[Handlers that call APIs](requests.md) shows how, with `host:jobs/http` and `wasi:http`.

`host job show` and the API show the requests of an attempt: method, server, the pattern of `paths` that allowed it,
status or reason, sizes and times, the first 100 one by one. Paths, headers and bodies are not recorded, because they
may hold secrets. What an attempt asked for is reported by the process that sends it, not by the handler.

| key | default | range | what it is |
|---|---|---|---|
";

const TCP: &str = "
## Connections and databases

Each `[[handlers.NAME.tcp]]` grants connections to one server and port, if the configuration allows the server too
(`grants.tcp`). Each `[[handlers.NAME.sql]]` grants statements for a database of PostgreSQL; it has the same keys and a `name`.
The host opens the connection, checks the server's certificate and signs in; a value of `password` may contain `{secret:NAME}`,
which the handler never sees. [Databases and other servers](databases.md) shows how.

| key | default | range | what it is |
|---|---|---|---|
";

const JOBS: &str = "
## Jobs that a handler enqueues

Each `[[handlers.NAME.jobs]]` grants jobs whose handler and queue both fit. The API's checks and limits apply. By
default such jobs exist exactly if the attempt completes: the host commits them with its end. An attempt may enqueue
1,000 of them, 8 MiB together, and 10,000 at a time.

| key | default | range | what it is |
|---|---|---|---|
";

/// The keys of a grant of jobs.
fn jobs_keys() -> Vec<(&'static str, String, String, &'static str)> {
    let patterns = || format!("1 to {PATTERNS_MAX} patterns: `*` is any text without `/`");
    vec![
        (
            "handlers",
            "required".to_owned(),
            patterns(),
            "The handlers, as a job names them: `receipt`, or `python#receipt` at a foreign runner",
        ),
        (
            "queues",
            "`[\"default\"]`".to_owned(),
            patterns(),
            "The queues",
        ),
    ]
}

const STATE: &str = "
## State that a handler keeps

`[handlers.NAME.state]` lets a handler keep values by key, from one attempt to the next, in a space of its own and in
those that it shares. What an attempt sets is stored exactly if it completes. A key has at most 512 bytes, a value 1 MiB;
an attempt may set 1,000 keys, 8 MiB together. `host state` lists, shows and changes them.

| key | default | range | what it is |
|---|---|---|---|
";

const SCHEDULES: &str = "
## Schedules of a component

Each `[[schedule]]` has a `name` and what [a schedule](schedules.md) has over HTTP. Its job is for a handler of the same
component. Schedules come and go with the component; a manifest has at most 64.
";

/// The keys of a grant of state.
fn state_keys() -> Vec<(&'static str, String, String, &'static str)> {
    vec![
        (
            "quota_kib",
            QUOTA_KIB_DEFAULT.to_string(),
            format!("1 to {QUOTA_KIB_MAX}"),
            "The largest size of a space to which the handler may add, in KiB: keys, values, and 64 bytes for each",
        ),
        (
            "shared",
            "none".to_owned(),
            format!("at most {SHARED_MAX} names"),
            "The spaces that it shares with all handlers that name them",
        ),
    ]
}

/// The keys of a grant of requests.
fn http_keys() -> Vec<(&'static str, String, String, &'static str)> {
    let all = || "all".to_owned();
    vec![
        (
            "to",
            "required".to_owned(),
            "`https://NAME`, `http://NAME`, with a port unless it is the default; `https://*.NAME` for all subdomains"
                .to_owned(),
            "The server",
        ),
        (
            "methods",
            all(),
            "upper-case names, except `CONNECT` and `TRACE`".to_owned(),
            "The methods",
        ),
        (
            "paths",
            all(),
            "patterns: `*` within a segment, `**` over segments, `?`, `[a-z]`, `{a,b}` with at most 64 alternatives".to_owned(),
            "The paths, after normalization; with patterns, paths with an encoded `/`, `\\`, `.` or NUL are refused",
        ),
        (
            "headers",
            "none".to_owned(),
            "lower-case names, except headers of the connection".to_owned(),
            "Headers that the host adds; the handler cannot set them",
        ),
        (
            "sign",
            "none".to_owned(),
            "a table".to_owned(),
            "How the host [signs](requests.md#sign-requests-for-aws) each request: `scheme` is `aws-sigv4`; `region`, `service`, \
             `key_id`, `secret_key`, and `session_token` for temporary keys",
        ),
        (
            "oauth",
            "none".to_owned(),
            "a table".to_owned(),
            "How the host gets the [access token](requests.md#sign-in-with-oauth) of each request: `token_url`; `client_id` and \
             `client_secret`, or `service_account`; `client_auth`, `scope` and `audience`",
        ),
        (
            "max_requests",
            REQUESTS_DEFAULT.to_string(),
            format!("1 to {REQUESTS_MAX}"),
            "The most requests of an attempt",
        ),
        (
            "max_response_kib",
            RESPONSE_KIB_DEFAULT.to_string(),
            format!("1 to {RESPONSE_KIB_MAX}"),
            "The largest body of a response, in KiB",
        ),
        (
            "max_total_mib",
            TOTAL_MIB_DEFAULT.to_string(),
            format!("1 to {TOTAL_MIB_MAX}"),
            "The most bytes of all bodies of an attempt, sent and received, in MiB",
        ),
        (
            "timeout_seconds",
            (TIMEOUT_MS_DEFAULT / 1_000).to_string(),
            "0.001 or more".to_owned(),
            "Time limit of a request, in seconds; the attempt's time limit also ends it",
        ),
    ]
}

fn tcp_keys() -> Vec<(&'static str, String, String, &'static str)> {
    let word = |text: &str| text.to_owned();
    vec![
        (
            "name",
            word("none"),
            word("1–64 letters, digits, `-` and `_`"),
            "The name of the database for the handler; in `sql`, and only there",
        ),
        (
            "to",
            word("required"),
            word("in `grants.tcp`"),
            "The server and its port: `db.internal:5432`, `10.1.0.7:6379`, `[fd00::7]:5432`",
        ),
        (
            "tls",
            word("`none`"),
            word("`none`, `direct`, `postgres`, `smtp`, `imap`"),
            "When the host begins TLS: with the first byte, or after the protocol's own request; it always checks the name",
        ),
        (
            "login",
            word("none"),
            word("a table"),
            "Who the host signs in as: `protocol` is `postgres`, `redis` or `smtp`; `user`, `password`, `database`; for PostgreSQL \
             also `options`, and `md5 = true` where the server knows no SCRAM; required in `sql`",
        ),
        (
            "pool",
            word("0"),
            word("0 to `max_connections`"),
            "How many idle connections the host keeps for further attempts, in their first state; for logins of `postgres` and `redis`",
        ),
        (
            "max_connections",
            CONNECTIONS_DEFAULT.to_string(),
            format!("1 to {CONNECTIONS_MAX}"),
            "The most connections of all attempts together, on one host; others wait",
        ),
        (
            "max_total_mib",
            TOTAL_MIB_DEFAULT.to_string(),
            format!("1 to {TOTAL_MIB_MAX}"),
            "The most bytes of an attempt, sent and received, in MiB",
        ),
        (
            "idle_seconds",
            (IDLE_MS_DEFAULT / 1_000).to_string(),
            word("0.001 or more"),
            "How long a connection may carry nothing before it is closed, in seconds",
        ),
    ]
}

/// The keys: name, default, range and meaning.
fn keys() -> Vec<(&'static str, String, String, &'static str)> {
    let limits = Limits::default();
    let seconds = |ms: u64| f64::from(Seconds { ms }).to_string();
    let most = |max: u64| format!("0 to {max}");
    let Backoff { base_ms, max_ms } = Backoff::default();
    let backoff = format!(
        "`{{ base_seconds = {}, max_seconds = {} }}`",
        seconds(base_ms),
        seconds(max_ms)
    );
    vec![
        (
            "memory_mib",
            (limits.memory_bytes >> 20).to_string(),
            format!("1 to {MEMORY_MIB_MAX}"),
            "Linear memory, all memories of the guest together, in MiB",
        ),
        (
            "fuel",
            format!("{FUEL_PER_SECOND} for each second of the time limit"),
            "1 or more".to_owned(),
            "CPU budget of an attempt, in wasmtime's fuel; `host job show` says what attempts used",
        ),
        (
            "timeout_seconds",
            seconds(limits.timeout_ms),
            "0.001 or more".to_owned(),
            "Time limit of an attempt, in seconds",
        ),
        (
            "grace_seconds",
            seconds(limits.grace_ms),
            "0 or more".to_owned(),
            "How long a cancelled handler has to stop by itself, in seconds",
        ),
        (
            "result_kib",
            (limits.result_bytes_max >> 10).to_string(),
            most(RESULT_KIB_MAX),
            "The largest result, in KiB",
        ),
        (
            "log_kib",
            (limits.log_bytes_max >> 10).to_string(),
            most(LOG_KIB_MAX),
            "How much of an attempt's log is kept, in KiB",
        ),
        (
            "scratch",
            "none".to_owned(),
            format!("`mib` 0 to {SCRATCH_MIB_MAX}"),
            "The size of `/scratch`, a directory of the attempt alone ([how](files.md)), in MiB",
        ),
        (
            "artifact_mib",
            "0".to_owned(),
            most(ARTIFACT_MIB_MAX),
            "The size of all [artifacts](files.md#artifacts) of an attempt together, in MiB",
        ),
        (
            "steps",
            "0".to_owned(),
            most(STEPS_MAX.into()),
            "The most [steps](steps.md) of a job",
        ),
        (
            "max_attempts",
            MAX_ATTEMPTS.to_string(),
            "1 or more".to_owned(),
            "The most attempts of a job that sets none, including the first",
        ),
        (
            "backoff",
            backoff,
            "`base_seconds` 0.001 or more, `max_seconds` not less".to_owned(),
            "The pause after the first attempt, which doubles with each further one, and the longest pause, in seconds; \
             each is up to 20 % shorter or longer. If a handler asks for a retry after some time, the pause is at least that \
             long; to retry sooner than by default, set a shorter backoff",
        ),
        (
            "retention_seconds",
            seconds(Retention::default().ms),
            "1 or more".to_owned(),
            "How long jobs are kept after they have ended, in seconds, if neither they nor their queue say so",
        ),
        (
            "retention_discarded_seconds",
            "`retention_seconds`".to_owned(),
            "1 or more".to_owned(),
            "How long discarded jobs are kept, in seconds",
        ),
    ]
}

/// The keys of grants.
fn grant_keys() -> Vec<(&'static str, String, String, &'static str)> {
    let none = || "none".to_owned();
    vec![
        (
            "env",
            none(),
            "at most 64 names of `grants.env`".to_owned(),
            "Variables of the host's environment that the guest sees",
        ),
        (
            "http",
            none(),
            "at most 64, to servers of `grants.http`".to_owned(),
            "Requests to HTTP servers that the handler may make; the keys of each are below",
        ),
        (
            "tcp",
            none(),
            "at most 64, to servers of `grants.tcp`".to_owned(),
            "Connections that the handler may open; the keys of each are below",
        ),
        (
            "sql",
            none(),
            "at most 64, on servers of `grants.tcp`".to_owned(),
            "Databases that the handler may query; the keys of each are below",
        ),
        (
            "jobs",
            none(),
            "at most 64".to_owned(),
            "Jobs that the handler may enqueue; the keys of each are below",
        ),
        (
            "state",
            none(),
            "a table".to_owned(),
            "State that the handler may keep; the keys are below",
        ),
        (
            "secrets",
            none(),
            "at most 64 names of `grants.secrets`".to_owned(),
            "Secrets whose values the handler may see ([how](requests.md#see-a-secret)); requests carry secrets without it",
        ),
        (
            "hold",
            none(),
            "at most 64 names of limits".to_owned(),
            "Limits whose keys the handler may [hold](limits.md#hold-a-key)",
        ),
        (
            "notify",
            none(),
            "at most 64 names of `[webhooks.NAME]`".to_owned(),
            "[Webhooks](webhooks.md) that jobs which the handler enqueues may notify",
        ),
        (
            "read_dirs",
            none(),
            "at most 64, absolute paths below `grants.read_roots`".to_owned(),
            "Directories that the guest may read: `host` is the path here, `guest` the path it sees",
        ),
    ]
}

#[test]
fn the_published_manifest_is_what_the_host_reads() {
    let mut doc = INTRO.to_owned() + EXAMPLE + KEYS;
    for (key, default, range, meaning) in keys().into_iter().chain(grant_keys()) {
        writeln!(doc, "| `{key}` | {default} | {range} | {meaning} |").unwrap();
    }
    doc.push_str(HTTP);
    for (key, default, range, meaning) in http_keys() {
        writeln!(doc, "| `{key}` | {default} | {range} | {meaning} |").unwrap();
    }
    doc.push_str(TCP);
    for (key, default, range, meaning) in tcp_keys() {
        writeln!(doc, "| `{key}` | {default} | {range} | {meaning} |").unwrap();
    }
    doc.push_str(JOBS);
    for (key, default, range, meaning) in jobs_keys() {
        writeln!(doc, "| `{key}` | {default} | {range} | {meaning} |").unwrap();
    }
    doc.push_str(STATE);
    for (key, default, range, meaning) in state_keys() {
        writeln!(doc, "| `{key}` | {default} | {range} | {meaning} |").unwrap();
    }
    doc.push_str(SCHEDULES);
    published::check("manifest.md", &doc);
}

#[test]
fn every_key_of_a_manifest_is_published_and_the_example_is_taken() {
    let second = Some(Seconds { ms: 1_000 });
    let all = ManifestSection {
        memory_mib: Some(1),
        fuel: Some(1),
        timeout_seconds: second,
        grace_seconds: second,
        result_kib: Some(1),
        log_kib: Some(1),
        scratch: Some(ScratchSection { mib: 1 }),
        artifact_mib: Some(1),
        steps: Some(1),
        max_attempts: Some(1),
        backoff: Some(BackoffSection::default()),
        retention_seconds: second,
        retention_discarded_seconds: second,
        env: Some(Vec::new()),
        read_dirs: Some(vec![DirGrant {
            host: "/a".to_owned(),
            guest: "/b".to_owned(),
        }]),
        http: Some(Vec::new()),
        tcp: Some(Vec::new()),
        sql: Some(Vec::new()),
        jobs: Some(Vec::new()),
        state: Some(StateGrant::default()),
        secrets: Some(Vec::new()),
        hold: Some(Vec::new()),
        notify: Some(Vec::new()),
    };
    let mut written: Vec<_> = serde_json::to_value(&all)
        .unwrap()
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect();
    let mut published: Vec<_> = keys()
        .into_iter()
        .chain(grant_keys())
        .map(|key| key.0.to_owned())
        .collect();
    written.sort();
    published.sort();
    assert_eq!(published, written);
    let keys: Vec<_> = http_keys()
        .into_iter()
        .chain(tcp_keys())
        .chain(jobs_keys())
        .chain(state_keys())
        .map(|key| key.0)
        .collect();
    for key in &keys {
        assert!(
            EXAMPLE.contains(&format!("\n{key} = ")),
            "the example lacks {key}"
        );
    }
    let example = manifest::parse(EXAMPLE).unwrap();
    assert_eq!(manifest::check(&example), Ok(()));
    let limits = example.limits(&"summary".parse().unwrap());
    assert_eq!((limits.memory_bytes, limits.grace_ms), (128 << 20, 500));
}
