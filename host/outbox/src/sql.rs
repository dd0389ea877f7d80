//! What is installed in an application's database.

use std::fmt::Write as _;

use host_store::postgres::outside::{self, OutsideError};
use host_store::postgres::target::Target;
use uuid::Uuid;

const INSTALL: &str = include_str!("install.sql");

const COUNTS: &str = "SELECT count(*) FILTER (WHERE refused_at IS NULL), \
    COALESCE(extract(epoch FROM now() - min(created_at) FILTER (WHERE refused_at IS NULL)), 0)::bigint, \
    count(refused_at) FROM host.outbox";

const REFUSALS: &str = "SELECT id, COALESCE(job->>'handler', ''), COALESCE(problem, '') FROM host.outbox \
    WHERE refused_at IS NOT NULL ORDER BY refused_at DESC LIMIT $1";

const RETRY: &str =
    "UPDATE host.outbox SET refused_at = NULL, problem = NULL WHERE refused_at IS NOT NULL";

/// Who may use an outbox besides the role that installs it.
#[derive(Clone, Debug, Default)]
pub struct Roles {
    /// Roles that may enqueue.
    pub producers: Vec<String>,
    /// Roles as which hosts take jobs.
    pub hosts: Vec<String>,
}

/// Returns the statements that make an outbox, or bring one up to date.
pub fn script(roles: &Roles) -> String {
    let mut script = INSTALL.to_owned();
    // Writing to a string does not fail.
    for role in roles.producers.iter().map(|it| quoted(it)) {
        let _ = write!(
            script,
            "\nGRANT USAGE ON SCHEMA host TO {role};\n\
             GRANT EXECUTE ON FUNCTION host.enqueue(text, jsonb, jsonb), host.cancel(uuid) TO {role};\n"
        );
    }
    for role in roles.hosts.iter().map(|it| quoted(it)) {
        let _ = write!(
            script,
            "\nGRANT USAGE ON SCHEMA host TO {role};\n\
             GRANT SELECT, UPDATE, DELETE ON host.outbox, host.cancels TO {role};\n"
        );
    }
    script
}

/// Runs the statements of [`script`] in one transaction. Blocks.
pub fn install(target: &Target, roles: &Roles) -> Result<(), OutsideError> {
    let script = format!("BEGIN;\n{}\nCOMMIT;", script(roles));
    outside::ask(target, async |connection| {
        let installed = connection.client.batch_execute(&script).await;
        installed.map_err(|error| OutsideError::new("install the outbox", target, &error))
    })
}

/// What an outbox has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// How many jobs wait to be accepted.
    pub waiting: i64,
    /// How long the oldest of them has waited, in seconds.
    pub oldest_seconds: i64,
    /// How many jobs were refused, the latest of them, and why.
    pub refused: i64,
    pub refusals: Vec<RefusedJob>,
}

/// A job that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedJob {
    pub id: Uuid,
    pub handler: String,
    pub problem: String,
}

/// Returns what an outbox has, with at most `refusals_max` refused jobs. Blocks.
pub fn status(target: &Target, refusals_max: i64) -> Result<Status, OutsideError> {
    outside::ask(target, async |connection| {
        let wrap = |error| OutsideError::new("read the outbox", target, &error);
        let client = &connection.client;
        let counts = client.query_one(COUNTS, &[]).await.map_err(wrap)?;
        let rows = client
            .query(REFUSALS, &[&refusals_max])
            .await
            .map_err(wrap)?;
        let refusals = rows.iter().map(|row| RefusedJob {
            id: row.get(0),
            handler: row.get(1),
            problem: row.get(2),
        });
        Ok(Status {
            waiting: counts.get(0),
            oldest_seconds: counts.get(1),
            refused: counts.get(2),
            refusals: refusals.collect(),
        })
    })
}

/// Lets hosts look at all refused jobs again. Returns how many. Blocks.
pub fn retry(target: &Target) -> Result<u64, OutsideError> {
    outside::ask(target, async |connection| {
        let retried = connection.client.execute(RETRY, &[]).await;
        retried.map_err(|error| OutsideError::new("retry the jobs of the outbox", target, &error))
    })
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_roles_are_quoted() {
        let roles = Roles {
            producers: vec!["a\"; DROP TABLE b; --".to_owned()],
            hosts: vec!["my host".to_owned()],
        };
        let script = script(&roles);
        let producer =
            "host.enqueue(text, jsonb, jsonb), host.cancel(uuid) TO \"a\"\"; DROP TABLE b; --\";";
        assert!(script.contains(producer), "{script}");
        assert!(
            script.ends_with("ON host.outbox, host.cancels TO \"my host\";\n"),
            "{script}"
        );
    }
}
