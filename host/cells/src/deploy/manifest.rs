//! Manifests: reads them from TOML, and checks them against the allowed ranges and against the
//! handlers of the component.

pub mod values;

use std::collections::BTreeSet;

use host_core::artifact::ARTIFACT_MIB_MAX;
use host_core::handler::{DirGrant, HandlerInfo, SCRATCH_MIB_MAX};
use host_core::http_grant::is_secret_name;
use host_core::jobs_grant::JobsGrant;
use host_core::json::words;
use host_core::name::Name;
use host_core::policy::RETENTION_MS_MIN;
use host_core::state::StateGrant;
use host_core::step::STEPS_MAX;
use host_core::tcp_grant::GrantKind;
use host_engine::component::{BackoffSection, Manifest, ManifestSection};
use thiserror::Error;

/// The largest manifest, in bytes.
pub const MANIFEST_BYTES_MAX: usize = 64 << 10;

/// The largest memory limit of a handler, in MiB.
pub const MEMORY_MIB_MAX: u64 = 4_096;

/// The largest result limit of a handler, in KiB.
pub const RESULT_KIB_MAX: u64 = 16 << 10;

/// The largest log limit of a handler, in KiB.
pub const LOG_KIB_MAX: u64 = 64 << 10;

/// The most schedules of a manifest.
pub const SCHEDULES_MAX: usize = 64;

/// How much of an invalid line is shown, in characters.
const LINE_CHARS_SHOWN: usize = 60;

/// The maximum number of grants of one kind.
const GRANTS_MAX: usize = 64;

/// Why a manifest is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ManifestError {
    /// It is not valid TOML, has an unknown key, or has a value of the wrong type.
    #[error("cannot read the manifest: {0}")]
    Unreadable(String),
    #[error("{section}: invalid value {value} for {key}: expected {expected}")]
    OutOfRange {
        /// The section that has the key.
        section: String,
        key: &'static str,
        value: String,
        /// What is allowed.
        expected: String,
    },
    /// A schedule is invalid.
    #[error("schedule {name}: {message}")]
    Schedule { name: Name, message: String },
    /// It has a section for a handler that the component does not have.
    #[error("the manifest has a section for handler {handler}, but the component has only {has}")]
    UnknownHandler {
        handler: Name,
        /// The handlers of the component.
        has: String,
    },
}

/// Reads a manifest.
pub fn parse(text: &str) -> Result<Manifest, ManifestError> {
    if text.len() > MANIFEST_BYTES_MAX {
        let message = format!(
            "it has {} bytes, more than {MANIFEST_BYTES_MAX}",
            text.len()
        );
        return Err(ManifestError::Unreadable(message));
    }
    let at_line = |number: usize, message: &str| {
        let whole = text.lines().nth(number - 1).unwrap_or_default();
        let line: String = whole.trim().chars().take(LINE_CHARS_SHOWN).collect();
        ManifestError::Unreadable(format!("line {number}, `{line}`: {message}"))
    };
    let manifest = toml::from_str(text).map_err(|error: toml::de::Error| {
        let before = error.span().and_then(|span| text.get(..span.start));
        let number = before.unwrap_or_default().matches('\n').count();
        let message = words::plain(error.message()).replace("an object", "a table");
        at_line(number + 1, &message)
    })?;
    match values::find_inexpressible(text) {
        Some(found) => Err(at_line(found.line, &found.message)),
        None => Ok(manifest),
    }
}

/// Checks every value against its range.
pub fn check(manifest: &Manifest) -> Result<(), ManifestError> {
    section("[defaults]", &manifest.defaults)?;
    for (name, own) in &manifest.handlers {
        section(&format!("[handlers.{name}]"), own)?;
    }
    let schedules = manifest.schedule.len();
    if schedules > SCHEDULES_MAX {
        let message = format!("it has {schedules} schedules, more than {SCHEDULES_MAX}");
        return Err(ManifestError::Unreadable(message));
    }
    Ok(())
}

/// Checks that the component has a handler for each section.
pub fn fits(manifest: &Manifest, handlers: &[HandlerInfo]) -> Result<(), ManifestError> {
    let has: BTreeSet<&Name> = handlers.iter().map(|handler| &handler.name).collect();
    let Some(unknown) = manifest.handlers.keys().find(|name| !has.contains(name)) else {
        return Ok(());
    };
    let has: Vec<&str> = has.into_iter().map(Name::as_str).collect();
    Err(ManifestError::UnknownHandler {
        handler: unknown.clone(),
        has: has.join(", "),
    })
}

fn section(name: &str, section: &ManifestSection) -> Result<(), ManifestError> {
    let refused = |key: &'static str, value: String, expected: String| ManifestError::OutOfRange {
        section: name.to_owned(),
        key,
        value,
        expected,
    };
    let most_attempts = u64::from(u32::MAX);
    let max_attempts = section.max_attempts.map(u64::from);
    let ranges = [
        ("memory_mib", section.memory_mib, 1, MEMORY_MIB_MAX),
        ("fuel", section.fuel, 1, i64::MAX.unsigned_abs()),
        ("result_kib", section.result_kib, 0, RESULT_KIB_MAX),
        ("log_kib", section.log_kib, 0, LOG_KIB_MAX),
        (
            "scratch.mib",
            section.scratch.map(|it| it.mib),
            0,
            SCRATCH_MIB_MAX,
        ),
        ("artifact_mib", section.artifact_mib, 0, ARTIFACT_MIB_MAX),
        ("steps", section.steps, 0, STEPS_MAX.into()),
        ("max_attempts", max_attempts, 1, most_attempts),
    ];
    for (key, value, least, most) in ranges {
        if let Some(value) = value.filter(|value| !(least..=most).contains(value)) {
            return Err(refused(key, value.to_string(), format!("{least}–{most}")));
        }
    }
    let base = section.backoff.map(|backoff| backoff.base_seconds);
    for (key, given) in [
        ("timeout_seconds", section.timeout_seconds),
        ("backoff.base_seconds", base),
    ] {
        if given.is_some_and(|given| given.ms == 0) {
            let expected = "0.001 or more".to_owned();
            return Err(refused(key, "0".to_owned(), expected));
        }
    }
    if let Some(BackoffSection {
        base_seconds: base,
        max_seconds: max,
    }) = section.backoff
        && max.ms < base.ms
    {
        let expected = format!("at least base_seconds, {}", f64::from(base));
        return Err(refused(
            "backoff.max_seconds",
            f64::from(max).to_string(),
            expected,
        ));
    }
    for (key, given) in [
        ("retention_seconds", section.retention_seconds),
        (
            "retention_discarded_seconds",
            section.retention_discarded_seconds,
        ),
    ] {
        if let Some(short) = given.filter(|given| given.ms < RETENTION_MS_MIN) {
            let expected = format!("{} or more", RETENTION_MS_MIN / 1_000);
            return Err(refused(key, f64::from(short).to_string(), expected));
        }
    }
    grants(name, section)
}

/// Checks the grants of a section.
fn grants(name: &str, section: &ManifestSection) -> Result<(), ManifestError> {
    let refused = |key: &'static str, value: String, expected: String| ManifestError::OutOfRange {
        section: name.to_owned(),
        key,
        value,
        expected,
    };
    let variables = section.env.iter().flatten();
    for variable in variables.clone() {
        if !is_variable(variable) {
            let expected = "a name of letters, digits and `_`".to_owned();
            return Err(refused("env", format!("{variable:?}"), expected));
        }
    }
    let dirs = section.read_dirs.iter().flatten();
    for DirGrant { host, guest } in dirs.clone() {
        for path in [host, guest] {
            if !is_absolute(path) {
                let expected = "an absolute path without `..`".to_owned();
                return Err(refused("read_dirs", format!("{path:?}"), expected));
            }
        }
    }
    let requests = section.http.iter().flatten();
    for grant in requests.clone() {
        if let Some((key, value, expected)) = grant.flaw() {
            return Err(refused(key, value, expected));
        }
    }
    for (kind, list) in [
        (GrantKind::Tcp, &section.tcp),
        (GrantKind::Sql, &section.sql),
    ] {
        let flaw = list.iter().flatten().find_map(|grant| grant.flaw(kind));
        if let Some((key, value, expected)) = flaw {
            let section = format!("{name} {}", kind.as_str());
            return Err(ManifestError::OutOfRange {
                section,
                key,
                value,
                expected,
            });
        }
    }
    let jobs = section.jobs.iter().flatten();
    if let Some((key, value, expected)) = jobs.clone().find_map(JobsGrant::flaw) {
        return Err(refused(key, value, expected));
    }
    if let Some((key, value, expected)) = section.state.as_ref().and_then(StateGrant::flaw) {
        return Err(refused(key, value, expected));
    }
    let secrets = section.secrets.iter().flatten();
    if let Some(other) = secrets.clone().find(|name| !is_secret_name(name)) {
        let expected = "a secret's name: 1–64 letters, digits, `-` and `_`".to_owned();
        return Err(refused("secrets", format!("{other:?}"), expected));
    }
    for (key, count) in [
        ("http", requests.count()),
        ("tcp", section.tcp.iter().flatten().count()),
        ("sql", section.sql.iter().flatten().count()),
        ("secrets", secrets.count()),
        ("jobs", jobs.count()),
        ("hold", section.hold.iter().flatten().count()),
        ("notify", section.notify.iter().flatten().count()),
        ("env", variables.count()),
        ("read_dirs", dirs.count()),
    ] {
        if count > GRANTS_MAX {
            let expected = format!("at most {GRANTS_MAX}");
            return Err(refused(key, format!("{count} entries"), expected));
        }
    }
    Ok(())
}

fn is_variable(name: &str) -> bool {
    let mut characters = name.chars();
    characters
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && characters.all(|other| other.is_ascii_alphanumeric() || other == '_')
}

fn is_absolute(path: &str) -> bool {
    path.starts_with('/') && !path.contains('\0') && !path.split('/').any(|part| part == "..")
}

#[cfg(test)]
mod tests;
