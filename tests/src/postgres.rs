//! Databases for hosts under test.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use host_testing::database::{Database, PORT, database, programs};

/// Makes a schema on the server of this process unless it exists, and returns the address of a database in
/// which it is the only one.
///
/// # Panics
///
/// If there is no server to start. The message names the package.
pub fn schema(name: &str) -> String {
    let made = database().execute(&format!("CREATE SCHEMA IF NOT EXISTS {name}"));
    assert!(made, "a schema can be made");
    Database::url(&database().folder, name)
}

/// Returns all that a schema has, as text; bytes are in hexadecimal.
///
/// # Panics
///
/// If there is no such schema.
pub fn dump(schema: &str) -> String {
    let mut dump = Command::new(programs().join("pg_dump"));
    dump.args(["--inserts", "--dbname=postgres", "--username=postgres"]);
    dump.args(["--schema", schema, "--host"]);
    let output = dump
        .arg(&database().folder)
        .output()
        .expect("pg_dump starts");
    assert!(output.status.success(), "cannot dump {schema}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Makes a database of an application, and returns its address for a role, which is made too.
///
/// # Panics
///
/// If there is no server to start. The message names the package.
pub fn application(name: &str, role: &str) -> String {
    // Both may be there.
    database().execute(&format!("CREATE DATABASE {name}"));
    database().execute(&format!("CREATE ROLE {role} LOGIN"));
    let folder = database().folder.display().to_string().replace('/', "%2F");
    format!("postgres://{role}@{folder}/{name}")
}

/// Runs statements in the database `name` as a role. Returns their output if all succeed.
pub fn query(name: &str, role: &str, sql: &str) -> Option<String> {
    let sql = format!("\\connect {name} {role}\n{sql}");
    Database::client(&database().folder, PORT, &sql)
}

/// A session that stays open.
#[derive(Debug)]
pub struct Session {
    psql: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Session {
    /// Opens a session in the database `name` as a role.
    ///
    /// # Panics
    ///
    /// If `psql` cannot be started.
    pub fn open(name: &str, role: &str) -> Self {
        let mut psql = Command::new(programs().join("psql"));
        psql.args(["-qAtX", "-U", role, "-d", name, "-h"]);
        psql.arg(&database().folder).args(["-p", &PORT.to_string()]);
        psql.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut psql = psql.spawn().expect("psql starts");
        let input = psql.stdin.take().expect("its input is a pipe");
        let output = psql.stdout.take().expect("its output is a pipe");
        Self {
            psql,
            input,
            output: BufReader::new(output).lines(),
        }
    }

    /// Runs statements that return one value, and returns it.
    ///
    /// # Panics
    ///
    /// If the session ends.
    pub fn value(&mut self, sql: &str) -> String {
        writeln!(self.input, "{sql}").expect("the session is open");
        let line = self.output.next().expect("there is a value");
        line.expect("the session is open")
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.psql.kill();
        let _ = self.psql.wait();
    }
}
