//! Reads and checks a job's hash. Each field has its own rule, and the order is fixed, so that each
//! cause has one code. Knows no state and no Redis.

pub(super) mod circles;
pub(super) mod new;
pub(super) mod view;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use host_core::name::Name;
use host_core::time::Time;
use host_wire_kit::json;
use serde::Deserialize;
use serde_json::json;

use self::new::ATTRIBUTES;
use super::messages::Value;
use super::refusals::{Code, Refusal};

/// The longest script, in bytes.
pub(super) const SCRIPT_BYTES_MAX: usize = 1 << 20;

/// The longest output, in bytes.
pub(super) const OUTPUT_BYTES_MAX: usize = 16 << 20;

/// The longest time limit, in seconds: a week.
pub(super) const TIMEOUT_SECONDS_MAX: u64 = 7 * 86_400;

/// The time limit of a job that sets none, in milliseconds.
pub(super) const TIMEOUT_MS: u64 = 30_000;

/// The longest worker id, in bytes.
pub(super) const WORKER_ID_BYTES_MAX: usize = 128;

/// The most retries.
pub(super) const RETRIES_MAX: u32 = 1_000;

/// The most jobs that one job may wait for.
pub(super) const DEPENDENCIES_MAX: usize = 1_000;

/// Why a job with a log path is refused if no folder is configured.
const NO_LOG_FOLDER: &str = "no folder for logs is configured; set log_dir in [protocol.hero] or \
                             HOST_HERO_LOG_DIR, or submit the job without it";

/// What the history has in place of a variable's value.
const NOT_KEPT: &str = "(not kept)";

/// The most environment variables.
const VARIABLES_MAX: usize = 256;

/// The fields to read, and the longest value of each, in bytes.
pub(super) const FIELDS: [(&str, usize); 18] = [
    ("id", 64),
    ("worker_id", 256),
    ("caller_id", 1_024),
    ("context_id", 1_024),
    ("script", SCRIPT_BYTES_MAX),
    ("script_type", 32),
    ("handler", 128),
    ("timeout", 32),
    ("retries", 32),
    ("concurrent", 8),
    ("log_path", 4_096),
    ("created_at", 64),
    ("env_vars", 64 << 10),
    ("prerequisites", 64 << 10),
    ("dependencies", 64 << 10),
    ("waits_for", 64 << 10),
    (ATTRIBUTES, 32 << 10),
    ("attempt", 16),
];

/// The script or handler of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Runs {
    Rhai(String),
    HeroScript(String),
    Handler { name: Name, params: String },
}

/// One checked job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HeroJob {
    pub(super) id: String,
    pub(super) caller_id: String,
    pub(super) context_id: String,
    pub(super) runs: Runs,
    pub(super) timeout_ms: u64,
    pub(super) retries: u32,
    /// The number of the next attempt, as the host that let the job rest has written it.
    pub(super) attempt: u32,
    pub(super) concurrent: bool,
    /// The path below the configured root.
    pub(super) log_path: Option<String>,
    pub(super) created_at: Option<Time>,
    pub(super) env: BTreeMap<String, String>,
    /// Prerequisites and dependencies together, or those that had not finished at the last check.
    pub(super) depends_on: BTreeSet<String>,
    /// Other attributes, as another host of ours sent them.
    pub(super) attributes: BTreeMap<String, String>,
}

/// Whose jobs are read, and the folder for log files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    pub(super) worker: String,
    pub(super) log_root: Option<String>,
}

/// Returns whether a text is a job id: a UUID with hyphens.
pub(super) fn is_id(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Reads a job from the values of [`FIELDS`]. A number in place of a text is the length of a text
/// that is too long.
pub(super) fn read(id: &str, values: &[Value], terms: &Terms) -> Result<HeroJob, Refusal> {
    let fields = Fields::new(values)?;
    let caller_id = fields.get("caller_id").unwrap_or_default().to_owned();
    let context_id = fields.get("context_id").unwrap_or_default().to_owned();
    own(&fields, id, terms)?;
    let runs = runs(&fields)?;
    let timeout_ms = timeout_ms(&fields)?;
    Ok(HeroJob {
        id: id.to_owned(),
        caller_id,
        context_id,
        runs,
        timeout_ms,
        retries: retries(&fields)?,
        attempt: attempt(&fields),
        concurrent: concurrent(&fields)?,
        log_path: log_path(&fields, terms)?,
        created_at: fields.get("created_at").and_then(Time::parse_rfc3339),
        env: env(&fields)?,
        depends_on: depends_on(&fields, id)?,
        attributes: attributes(&fields),
    })
}

struct Fields<'a>(BTreeMap<&'static str, &'a str>);

impl<'a> Fields<'a> {
    fn new(values: &'a [Value]) -> Result<Self, Refusal> {
        let mut fields = BTreeMap::new();
        for ((name, bytes_max), value) in FIELDS.iter().zip(values) {
            match value {
                Value::Data(bytes) => {
                    let text = std::str::from_utf8(bytes).map_err(|_| {
                        let found = format!("{} bytes of another encoding", bytes.len());
                        Refusal::field(Code::FieldType, name, "UTF-8 text", &found)
                    })?;
                    fields.insert(*name, text);
                }
                Value::Int(_) if *name == ATTRIBUTES => {}
                Value::Int(bytes) => {
                    let expected = format!("at most {bytes_max} bytes");
                    let found = format!("{bytes} bytes");
                    return Err(Refusal::range(name, &expected, &found));
                }
                Value::Nil | Value::List(_) | Value::Error(_) => {}
            }
        }
        Ok(Self(fields))
    }

    fn get(&self, name: &str) -> Option<&'a str> {
        self.0.get(name).copied()
    }

    /// Returns a field if it is not empty.
    fn filled(&self, name: &str) -> Option<&'a str> {
        self.get(name)
            .map(str::trim)
            .filter(|text| !text.is_empty())
    }
}

/// Checks that the hash names this job and this worker.
fn own(fields: &Fields<'_>, id: &str, terms: &Terms) -> Result<(), Refusal> {
    for (name, expected) in [("id", id), ("worker_id", terms.worker.as_str())] {
        if let Some(other) = fields.filled(name).filter(|other| *other != expected) {
            let whose = if name == "id" { "its key" } else { "its queue" };
            let message = format!(
                "{name}: the hash does not match {whose}, found a text of {} bytes",
                other.len()
            );
            return Err(Refusal::new(Code::JobTampered, message));
        }
    }
    Ok(())
}

fn runs(fields: &Fields<'_>) -> Result<Runs, Refusal> {
    let script = fields.get("script").unwrap_or_default();
    if let Some(handler) = fields.filled("handler") {
        let name = handler
            .parse()
            .map_err(|error: host_core::name::NameError| {
                Refusal::new(Code::FieldRange, format!("handler: {error}"))
            })?;
        let params = if script.trim().is_empty() {
            "{}"
        } else {
            script
        };
        json::check(params.as_bytes()).map_err(|fault| {
            let found = format!("something else at {fault}");
            let expected = "JSON params, because the job names a handler";
            Refusal::field(Code::FieldType, "script", expected, &found)
        })?;
        let params = params.to_owned();
        return Ok(Runs::Handler { name, params });
    }
    if fields.get("script").is_none() {
        let expected = "a script, or a handler and its params";
        return Err(Refusal::field(
            Code::FieldType,
            "script",
            expected,
            "nothing",
        ));
    }
    let script = script.to_owned();
    match fields.filled("script_type").map(str::to_ascii_lowercase) {
        None if is_heroscript(&script) => Ok(Runs::HeroScript(script)),
        None => Ok(Runs::Rhai(script)),
        Some(kind) if kind == "rhai" => Ok(Runs::Rhai(script)),
        Some(kind) if kind == "heroscript" => Ok(Runs::HeroScript(script)),
        Some(other) => {
            let found = format!("a text of {} bytes", other.len());
            let expected = "rhai or heroscript";
            Err(Refusal::range("script_type", expected, &found))
        }
    }
}

/// Returns whether a script without a `script_type` is a HeroScript: it begins with an action, or has
/// a line that begins with one of two or more marks.
fn is_heroscript(script: &str) -> bool {
    let is_text = |line: &&str| !line.is_empty() && !line.starts_with("//");
    let first = script.lines().map(str::trim).find(is_text);
    let later = |line: &str| line.starts_with("!!") && is_action(line);
    first.is_some_and(is_action) || script.lines().any(later)
}

/// Returns whether a line is the first of an action: one to four marks, `actor.action` (behind two or
/// more marks also `action` alone), and then nothing or words. `!a.b && c` is an expression.
fn is_action(line: &str) -> bool {
    let path = line.trim_start_matches('!');
    let marks = line.len() - path.len();
    let (name, rest) = path.split_once(char::is_whitespace).unwrap_or((path, ""));
    let part = |part: &str| {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
        !part.is_empty() && part.bytes().all(allowed)
    };
    let is_named = match name.split_once('.') {
        Some((actor, action)) => part(actor) && part(action),
        None => marks > 1 && part(name),
    };
    let rest = rest.trim_start();
    let is_operator =
        rest.starts_with(['&', '|', '=', '<', '>', '?', '+', '*', '%', ';', '(', ')']);
    (1..=4).contains(&marks) && is_named && !is_operator
}

/// Describes a text, quoting it only if it is a plain number.
fn shown(text: &str) -> String {
    let number = text
        .bytes()
        .all(|b| b.is_ascii_digit() || b == b'-' || b == b'.');
    if number && text.len() <= 24 {
        text.to_owned()
    } else {
        format!("a text of {} bytes", text.len())
    }
}

fn timeout_ms(fields: &Fields<'_>) -> Result<u64, Refusal> {
    let Some(text) = fields.filled("timeout") else {
        return Ok(TIMEOUT_MS);
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let ms = if digits(whole) && digits(fraction) {
        let fraction_ms = format!("{fraction:0<3}")
            .get(..3)
            .and_then(|first| first.parse::<u64>().ok());
        let whole_ms = whole.parse::<u64>().ok().and_then(|s| s.checked_mul(1_000));
        whole_ms
            .zip(fraction_ms)
            .map(|(whole, fraction)| whole.saturating_add(fraction))
    } else {
        None
    };
    let range = 1..=TIMEOUT_SECONDS_MAX * 1_000;
    ms.filter(|ms| range.contains(ms)).ok_or_else(|| {
        let expected =
            format!("a decimal number of seconds above 0, at most {TIMEOUT_SECONDS_MAX}");
        Refusal::range("timeout", &expected, &shown(text))
    })
}

/// Reads a field of ours. What no host of ours has written makes no job fail.
fn attempt(fields: &Fields<'_>) -> u32 {
    let number = fields.filled("attempt").and_then(|text| text.parse().ok());
    number.unwrap_or(1).clamp(1, RETRIES_MAX + 1)
}

fn retries(fields: &Fields<'_>) -> Result<u32, Refusal> {
    let Some(text) = fields.filled("retries") else {
        return Ok(0);
    };
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    let number = digits.then(|| text.parse().ok()).flatten();
    number
        .filter(|retries| *retries <= RETRIES_MAX)
        .ok_or_else(|| {
            let expected = format!("a decimal number from 0 to {RETRIES_MAX}");
            Refusal::range("retries", &expected, &shown(text))
        })
}

fn concurrent(fields: &Fields<'_>) -> Result<bool, Refusal> {
    match fields.filled("concurrent") {
        None | Some("true") => Ok(true),
        Some("false") => Ok(false),
        Some(other) => {
            let found = shown(other);
            Err(Refusal::range("concurrent", "true or false", &found))
        }
    }
}

fn log_path(fields: &Fields<'_>, terms: &Terms) -> Result<Option<String>, Refusal> {
    let Some(path) = fields.filled("log_path") else {
        return Ok(None);
    };
    let refused = |why: &str| Refusal::new(Code::LogPath, format!("log_path: {why}"));
    let Some(root) = &terms.log_root else {
        return Err(refused(NO_LOG_FOLDER));
    };
    let below = log_path_below(root, path).map_err(refused)?;
    Ok(Some(below.to_owned()))
}

/// Returns the part of a job's log path below the folder `root`, or why it is invalid. Links are
/// checked when the file is opened.
pub(super) fn log_path_below<'a>(root: &str, path: &'a str) -> Result<&'a str, &'static str> {
    let below = match path.strip_prefix(root.trim_end_matches('/')) {
        Some(rest) if rest.starts_with('/') => rest.trim_start_matches('/'),
        _ => path,
    };
    let plain = |part: &str| !matches!(part, "" | "." | "..");
    if below.starts_with('/') || !below.split('/').all(plain) {
        return Err("it is not inside the configured folder (log_dir)");
    }
    if below.chars().any(char::is_control) {
        return Err("it has control characters");
    }
    Ok(below)
}

/// Returns whether a text is a worker id, which becomes part of keys.
pub(super) fn is_worker_id(text: &str) -> bool {
    (1..=WORKER_ID_BYTES_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic())
}

/// Returns whether a text is the name of an environment variable.
pub(super) fn is_variable(name: &str) -> bool {
    let first = name.bytes().next();
    first.is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Reads the attributes as far as possible: the field is not the document's, so no job fails for it.
fn attributes(fields: &Fields<'_>) -> BTreeMap<String, String> {
    let text = fields.get(ATTRIBUTES).unwrap_or_default();
    serde_json::from_str(text).unwrap_or_default()
}

fn env(fields: &Fields<'_>) -> Result<BTreeMap<String, String>, Refusal> {
    let Some(text) = fields.filled("env_vars").filter(|text| *text != "null") else {
        return Ok(BTreeMap::new());
    };
    let env: BTreeMap<String, String> = strict("env_vars", text, "a JSON object of texts")?;
    let expected = if env.len() > VARIABLES_MAX {
        format!("at most {VARIABLES_MAX} variables")
    } else if !env.keys().all(|name| is_variable(name)) {
        "names of letters, digits and _".to_owned()
    } else if env.values().any(|value| value.contains('\0')) {
        "values without NUL".to_owned()
    } else {
        return Ok(env);
    };
    let found = format!("{} variables, some of which do not fit", env.len());
    Err(Refusal::range("env_vars", &expected, &found))
}

fn depends_on(fields: &Fields<'_>, id: &str) -> Result<BTreeSet<String>, Refusal> {
    let mut all = BTreeSet::new();
    // If the job waited before it was queued, the jobs that it waited for may be gone by now.
    let names: &[&str] = match fields.filled("waits_for") {
        Some(_) => &["waits_for"],
        None => &["prerequisites", "dependencies"],
    };
    for &name in names {
        let Some(text) = fields.filled(name).filter(|text| *text != "null") else {
            continue;
        };
        let ids: Vec<String> = strict(name, text, "a JSON array of job ids")?;
        if let Some(other) = ids.iter().find(|id| !is_id(id)) {
            let found = format!("a text of {} bytes among them", other.len());
            return Err(Refusal::range(name, "ids of jobs (UUIDs)", &found));
        }
        if ids.iter().any(|other| other == id) {
            return Err(cycle(&[id, id]));
        }
        all.extend(ids);
    }
    if all.len() > DEPENDENCIES_MAX {
        let expected = format!("at most {DEPENDENCIES_MAX} jobs to wait for");
        let found = format!("{}", all.len());
        return Err(Refusal::range("dependencies", &expected, &found));
    }
    Ok(all)
}

/// Makes the refusal for jobs that wait for each other, with their path.
pub(super) fn cycle(path: &[&str]) -> Refusal {
    let message = format!(
        "dependencies: the jobs wait for each other: {}",
        path.join(" -> ")
    );
    Refusal::new(Code::DepCycle, message)
}

fn strict<T: for<'de> Deserialize<'de>>(
    field: &str,
    text: &str,
    expected: &str,
) -> Result<T, Refusal> {
    let refused = |found: &str| Refusal::field(Code::FieldType, field, expected, found);
    json::check(text.as_bytes()).map_err(|fault| refused(&format!("at {fault}")))?;
    serde_json::from_str(text).map_err(|_| refused("JSON of another shape"))
}

impl HeroJob {
    /// Returns the handler that executes the job, and its params.
    pub(super) fn call(&self) -> Result<(Name, String), Refusal> {
        let named = |name: &str| {
            name.parse::<Name>()
                .map_err(|error| Refusal::new(Code::FieldRange, format!("handler: {error}")))
        };
        let (handler, script) = match &self.runs {
            Runs::Handler { name, params } => return Ok((name.clone(), params.clone())),
            Runs::Rhai(script) => ("hero.rhai", script),
            Runs::HeroScript(script) => ("hero.heroscript", script),
        };
        Ok((named(handler)?, self.script_params(script, &self.env)))
    }

    /// Returns the params of the call as the history keeps them: without values of the environment.
    /// `None` if there are no such values in them.
    pub(super) fn kept_params(&self) -> Option<String> {
        match &self.runs {
            Runs::Rhai(script) | Runs::HeroScript(script) if !self.env.is_empty() => {
                let names = self.env.keys().cloned();
                let env = names.map(|name| (name, NOT_KEPT.to_owned())).collect();
                Some(self.script_params(script, &env))
            }
            _ => None,
        }
    }

    fn script_params(&self, script: &str, env: &BTreeMap<String, String>) -> String {
        json!({
            "script": script,
            "caller_id": self.caller_id,
            "context_id": self.context_id,
            "env": env,
        })
        .to_string()
    }
}
