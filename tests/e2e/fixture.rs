//! Hosts with the example handlers: one for a single test, and one shared by tests that do not affect
//! each other.

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use host_tests::{Client, Options, Server, guests};
use tempfile::TempDir;

/// A host for a single test.
pub(crate) struct Own {
    pub(crate) server: Server,
    pub(crate) data: TempDir,
}

/// Starts a host with the component `basics`.
pub(crate) fn own() -> Own {
    own_with(|_| {})
}

/// Starts a host with other options and the component `basics`.
pub(crate) fn own_with(change: impl FnOnce(&mut Options)) -> Own {
    let data = TempDir::new().unwrap();
    let mut options = Options::new(data.path());
    change(&mut options);
    let server = Server::start(&options);
    deploy(&server.client(), "basics");
    Own { server, data }
}

/// A client of the shared host, which ends when the last client is dropped.
pub(crate) struct Shared {
    client: Client,
    _own: Arc<Own>,
}

impl Deref for Shared {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

/// Returns a client of the shared host.
pub(crate) fn shared() -> Shared {
    static SHARED: Mutex<Weak<Own>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    let own = shared.upgrade().unwrap_or_else(|| {
        let started = Arc::new(own());
        *shared = Arc::downgrade(&started);
        started
    });
    Shared {
        client: own.server.client(),
        _own: own,
    }
}

/// Deploys a component of this repository, with its manifest if it has one.
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
