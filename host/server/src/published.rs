//! Documents that are generated from the code: each is compared with what is published in `docs/`.

/// Compares `docs/<name>` with what was generated; with `UPDATE_DOCS=1` it is written anew.
#[expect(
    clippy::disallowed_methods,
    reason = "whether to rewrite a document is asked of whoever runs the test"
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
