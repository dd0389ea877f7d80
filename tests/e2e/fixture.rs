//! A host with the example handlers, shared by the tests of this binary that do no harm to it.

use std::sync::OnceLock;

use host_tests::{Client, Options, Server, guests};
use tempfile::TempDir;

/// A host of its own for one test.
pub(crate) struct Own {
    pub(crate) server: Server,
    pub(crate) data: TempDir,
}

/// Starts a host with the component `basics`.
pub(crate) fn own() -> Own {
    let data = TempDir::new().unwrap();
    let server = Server::start(&Options::new(data.path()));
    deploy(&server.client(), "basics");
    Own { server, data }
}

/// Returns a client of the shared host.
pub(crate) fn shared() -> Client {
    static SHARED: OnceLock<Own> = OnceLock::new();
    SHARED.get_or_init(own).server.client()
}

/// Deploys a component of the repository with the manifest beside it.
pub(crate) fn deploy(client: &Client, name: &str) {
    let path = guests::component(name);
    let manifest = std::fs::read_to_string(path.with_extension("toml")).ok();
    let component = std::fs::read(&path).unwrap();
    let answer = client
        .deploy(name, &component, manifest.as_deref())
        .unwrap();
    assert!(
        matches!(answer.status, 200 | 201),
        "cannot deploy {name}: {}",
        answer.body
    );
}
