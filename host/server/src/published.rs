//! Compares documents generated from the code with the files in `docs/`.

/// Compares `docs/<name>` with the generated text. With `UPDATE_DOCS=1`, updates the file.
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
        "docs/{name} is out of date: run `cargo xtask test docs --update`"
    );
}
