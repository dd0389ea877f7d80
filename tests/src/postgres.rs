//! Databases for hosts under test.

use host_testing::database::{Database, database};

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
