//! docs/cli.md is what the binary says of itself.

use crate::canned::run_alone;

/// Set to write the document instead of comparing it.
const BLESS: &str = "UPDATE_DOCS";

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "goldens are written when a variable asks for it"
)]
fn the_document_is_what_the_command_prints() {
    let printed = run_alone(&["__cli-docs"]);
    let document = printed
        .strip_prefix("$ host __cli-docs\n")
        .and_then(|rest| rest.strip_suffix("exit 0\n"))
        .unwrap();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md");
    if std::env::var_os(BLESS).is_some() {
        std::fs::write(path, document).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(
        kept, document,
        "docs/cli.md is out of date: run `cargo xtask test docs --update`"
    );
}
