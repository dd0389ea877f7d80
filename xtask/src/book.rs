//! `cargo xtask book`: makes the book of docs/, as `book.toml` and `docs/SUMMARY.md` describe it.

use std::io::ErrorKind;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::cargo::{root, run};

const VERSION: &str = "0.5.4";

/// Builds the book with mdBook, and prints where it begins.
pub(crate) fn build() -> Result<()> {
    match Command::new("mdbook").arg("--version").output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!(
                "mdbook is not installed: run `cargo install mdbook --version {VERSION} --locked`"
            )
        }
        found => found.context("cannot start `mdbook --version`")?,
    };
    run(Command::new("mdbook").arg("build").current_dir(root()))?;
    println!("{}", root().join("target/book/index.html").display());
    Ok(())
}
