//! `cargo xtask book`: makes the book with mdBook: the README, the pages that `docs/SUMMARY.md` lists, and what these link to.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::cargo::{root, run, target_dir};

const VERSION: &str = "0.5.4";

/// The page that the book begins with, and the list of the others.
const FIRST: &str = "README.md";
const SUMMARY: &str = "docs/SUMMARY.md";

/// Builds the book, and prints where it begins.
pub(crate) fn build() -> Result<()> {
    match Command::new("mdbook").arg("--version").output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!(
                "mdbook is not installed: run `cargo install mdbook --version {VERSION} --locked`"
            )
        }
        found => found.context("cannot start `mdbook --version`")?,
    };
    let folder = target_dir().join("book-source");
    let _ = fs::remove_dir_all(&folder);
    let book = Book::read(&root())?;
    for (path, bytes) in &book.files {
        write(&folder.join("src").join(path), bytes)?;
    }
    write(&folder.join("src/SUMMARY.md"), book.summary.as_bytes())?;
    fs::copy(root().join("book.toml"), folder.join("book.toml"))
        .context("cannot copy book.toml")?;
    run(Command::new("mdbook").arg("build").current_dir(&folder))?;
    println!("{}", target_dir().join("book/index.html").display());
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let folder = path.parent().context("a file is in a folder")?;
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, bytes))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// What mdBook reads.
struct Book {
    /// By their paths in the repository, which links lead along.
    files: BTreeMap<PathBuf, Vec<u8>>,
    summary: String,
}

impl Book {
    /// Collects the listed pages, and all files that they link to. Linked pages become chapters at the end.
    fn read(root: &Path) -> Result<Self> {
        let listed = fs::read_to_string(root.join(SUMMARY))
            .with_context(|| format!("cannot read {SUMMARY}"))?;
        let listed_pages: BTreeSet<PathBuf> = files_linked(Path::new(SUMMARY), &listed).collect();
        let (mut files, mut more) = (BTreeMap::new(), Vec::new());
        let mut queue: VecDeque<PathBuf> = [PathBuf::from(FIRST)].into();
        queue.extend(listed_pages.iter().cloned());
        while let Some(path) = queue.pop_front() {
            if files.contains_key(&path) {
                continue;
            }
            let bytes = fs::read(root.join(&path))
                .with_context(|| format!("cannot read {}", path.display()))?;
            if path.extension().is_some_and(|ending| ending == "md") {
                let text = String::from_utf8_lossy(&bytes);
                queue.extend(files_linked(&path, &text));
                if path.as_os_str() != FIRST && !listed_pages.contains(&path) {
                    more.push((title(&text).to_owned(), path.clone()));
                }
            }
            files.insert(path, bytes);
        }
        more.sort();
        let mut summary = listed.replace("](", "](docs/").replacen(
            "# Summary\n",
            &format!("# Summary\n\n[host]({FIRST})\n"),
            1,
        );
        summary.push_str("\n# More\n\n");
        for (title, path) in more {
            writeln!(summary, "- [{title}]({})", path.display())?;
        }
        Ok(Self { files, summary })
    }
}

/// Returns the heading of a page.
fn title(page: &str) -> &str {
    let mut lines = page.lines();
    lines
        .find_map(|line| line.strip_prefix("# "))
        .unwrap_or("Untitled")
}

/// Returns the files of the repository that a page links to.
fn files_linked(page: &Path, text: &str) -> impl Iterator<Item = PathBuf> {
    let targets = links(text).filter_map(|target| target.split('#').next());
    targets
        .filter(|target| !is_outside(target))
        .map(|target| normal(&page.with_file_name(target)))
}

/// Returns the targets of the links of a page.
pub(crate) fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1);
    targets.filter_map(|rest| rest.split(')').next())
}

/// Returns whether a link does not lead to another file of the repository.
pub(crate) fn is_outside(target: &str) -> bool {
    target.is_empty() || target.contains("://") || target.starts_with("mailto:")
}

/// Returns a path without `..`.
pub(crate) fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = normal.pop(),
            other => normal.push(other),
        }
    }
    normal
}

#[test]
fn the_book_has_all_that_its_pages_link_to() {
    let book = Book::read(&root()).unwrap();
    let has = |path: &str| book.files.contains_key(Path::new(path));
    assert!(
        has("docs/guides/start.md") && has("sdk/python/README.md") && has("docs/dashboard.png")
    );
    assert!(book.summary.contains("\n[host](README.md)\n"));
    assert!(book.summary.contains("(docs/guides/start.md)"));
    assert!(book.summary.contains("(SECURITY.md)"));
    let decisions = book.summary.matches("(docs/decisions/").count();
    assert!(decisions > 5, "linked decisions are chapters");
}
