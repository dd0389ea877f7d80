//! Compares documents that are generated from the code with those in `docs/`.

/// Compares `docs/<name>` with what was generated; with `UPDATE_DOCS=1` it is updated.
#[expect(
    clippy::disallowed_methods,
    reason = "the person who runs the test decides whether to update a document"
)]
pub(crate) fn check(name: &str, generated: &str) {
    let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, generated).unwrap();
    }
    let published = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        published, generated,
        "docs/{name} is out of date: UPDATE_DOCS=1 cargo test -p host-server"
    );
}
