//! Grants in words, one line each.

use std::fmt::Display;

/// Describes a variable of the environment.
pub fn env(name: &str) -> String {
    format!("env {name}")
}

/// Describes a directory to read.
pub fn dir(host: &str, guest: &str) -> String {
    format!("read {host} as {guest}")
}

/// Describes requests to HTTP servers.
pub fn http(to: impl Display, methods: &[String], paths: &[String]) -> String {
    let list = |words: &[String], all: &str| match words {
        [] => all.to_owned(),
        // Neither methods nor paths have spaces.
        _ => words.join(" "),
    };
    let (methods, paths) = (list(methods, "any method"), list(paths, "any path"));
    format!("http {to} {methods} {paths}")
}

/// Describes connections to a server.
pub fn tcp(to: impl Display, tls: &str, login: Option<&str>) -> String {
    let tls = match tls {
        "none" => "without TLS".to_owned(),
        other => format!("with TLS ({other})"),
    };
    match login {
        Some(login) => format!("connect to {to} {tls}, {login}"),
        None => format!("connect to {to} {tls}"),
    }
}

/// Describes a database to query.
pub fn sql(name: &str, connection: &str) -> String {
    format!("query {name}: {connection}")
}

/// Describes jobs to enqueue.
pub fn jobs(handlers: &[String], queues: &[String]) -> String {
    format!("enqueue {} in {}", handlers.join(","), queues.join(","))
}

/// Describes state to keep.
pub fn state(quota_kib: u64, shared: &[impl Display]) -> String {
    let line = format!("keep state, {quota_kib} KiB");
    if shared.is_empty() {
        return line;
    }
    let shared: Vec<String> = shared.iter().map(ToString::to_string).collect();
    format!("{line}, and share {}", shared.join(", "))
}

/// Describes a secret to see.
pub fn secret(name: &str) -> String {
    format!("see the secret {name}")
}

/// Describes a webhook that jobs of the handler may notify.
pub fn notify(webhook: impl Display) -> String {
    format!("notify the webhook {webhook}")
}

/// Describes a limit whose keys may be held.
pub fn hold(limit: impl Display) -> String {
    format!("hold keys of the limit {limit}")
}
