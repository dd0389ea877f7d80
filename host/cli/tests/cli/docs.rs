//! docs/cli.md is what the binary says of itself, and the host reads the configurations and manifests of all documents.

use std::fs;
use std::path::{Path, PathBuf};

use host_cells::deploy::manifest;
use host_server::config::{Config, Flags};
use tempfile::NamedTempFile;

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

/// The tables of a manifest. Others are those of a configuration.
const OF_MANIFESTS: &[&str] = &["[handlers.", "[[handlers.", "[[schedule]]", "[defaults]"];

#[test]
fn the_host_reads_the_toml_of_all_documents() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut blocks = 0;
    for page in pages(&root.join("docs"))
        .into_iter()
        .chain([root.join("README.md")])
    {
        let text = fs::read_to_string(&page).unwrap();
        let mut earlier = String::new();
        for block in text.split("\n```toml").skip(1) {
            let (_, block) = block.split_once('\n').unwrap();
            let block = block.split("\n```").next().unwrap();
            blocks += 1;
            if OF_MANIFESTS.iter().any(|table| block.contains(table)) {
                if let Err(error) = manifest::parse(block) {
                    panic!("{}: {error}\n{block}", page.display());
                }
                continue;
            }
            // One that needs those before it is read with them.
            let all = format!("{earlier}\n{block}\n");
            if let Err(error) = read_config(block).or_else(|_| read_config(&all)) {
                panic!("{}: {error}\n{block}", page.display());
            }
            earlier = all;
        }
    }
    assert!(
        blocks > 20,
        "the documents have configurations and manifests"
    );
}

/// Reads a configuration. Returns what is wrong with it.
fn read_config(text: &str) -> Result<(), String> {
    let file = NamedTempFile::new().unwrap();
    fs::write(&file, text).unwrap();
    let flags = Flags {
        config: Some(file.path().to_owned()),
        ..Flags::default()
    };
    Config::load(&flags)
        .map(drop)
        .map_err(|error| error.to_string())
}

/// Returns all pages below a folder.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(pages(&path));
        } else if path.extension().is_some_and(|it| it == "md") {
            all.push(path);
        }
    }
    all
}
