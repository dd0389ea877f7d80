//! Databases for hosts under test.

use std::process::Command;

use host_testing::database::{Database, database, programs};

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
