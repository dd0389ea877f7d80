//! `host new`: writes the project of a new handler, with a test, a manifest, a README and the SDK of its language.

mod sdk;

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use host_console::error::{CliError, Exit};
use host_console::options::OutputOptions;
use host_console::output::put_line;
use host_console::plain;
use serde_json::json;

/// Create the project of a new handler.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host new word-count
  host new word-count --lang python
  host new word-count --lang ts --dir handlers/word-count

The project has the SDK of its language in a folder of its own, so that it builds wherever it is
copied to.

Then `host build word-count --test` tests and builds it, and `host dev word-count` runs it on each
change.")]
pub(crate) struct New {
    /// The name of the project, its component and its handler
    #[arg(value_parser = parse_name)]
    name: String,
    /// The language to write it in
    #[arg(long, value_enum, default_value_t = Lang::Rust)]
    lang: Lang,
    /// The folder to create [default: NAME]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    shown: OutputOptions,
}

/// A language that handlers are written in.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Lang {
    Rust,
    Js,
    Ts,
    Python,
}

/// The files of a project, as paths and texts.
type Template = &'static [(&'static str, &'static str)];

const MANIFEST: (&str, &str) = ("{{name}}.toml", include_str!("new/manifest.toml.in"));
const PARAMS: (&str, &str) = ("params.json", include_str!("new/params.json.in"));

const RUST: Template = &[
    ("Cargo.toml", include_str!("new/rust/Cargo.toml.in")),
    ("src/lib.rs", include_str!("new/rust/lib.rs.in")),
    MANIFEST,
    PARAMS,
    ("README.md", include_str!("new/rust/README.md.in")),
    (".gitignore", include_str!("new/rust/gitignore.in")),
];

const JAVASCRIPT: Template = &[
    (
        "package.json",
        include_str!("new/javascript/package.json.in"),
    ),
    (
        "package-lock.json",
        include_str!("new/javascript/package-lock.json.in"),
    ),
    ("handlers.js", include_str!("new/javascript/handlers.js.in")),
    (
        "handlers.test.js",
        include_str!("new/javascript/handlers.test.js.in"),
    ),
    MANIFEST,
    PARAMS,
    ("README.md", include_str!("new/javascript/README.md.in")),
    (".gitignore", include_str!("new/javascript/gitignore.in")),
];

const TYPESCRIPT: Template = &[
    (
        "package.json",
        include_str!("new/typescript/package.json.in"),
    ),
    (
        "package-lock.json",
        include_str!("new/typescript/package-lock.json.in"),
    ),
    (
        "tsconfig.json",
        include_str!("new/typescript/tsconfig.json.in"),
    ),
    ("handlers.ts", include_str!("new/javascript/handlers.js.in")),
    (
        "handlers.test.ts",
        include_str!("new/typescript/handlers.test.ts.in"),
    ),
    MANIFEST,
    PARAMS,
    ("README.md", include_str!("new/typescript/README.md.in")),
    (".gitignore", include_str!("new/javascript/gitignore.in")),
];

const PYTHON: Template = &[
    (
        "pyproject.toml",
        include_str!("new/python/pyproject.toml.in"),
    ),
    ("handlers.py", include_str!("new/python/handlers.py.in")),
    (
        "test_handlers.py",
        include_str!("new/python/test_handlers.py.in"),
    ),
    MANIFEST,
    PARAMS,
    ("README.md", include_str!("new/python/README.md.in")),
    (".gitignore", include_str!("new/python/gitignore.in")),
];

impl Lang {
    const fn template(self) -> Template {
        match self {
            Self::Rust => RUST,
            Self::Js => JAVASCRIPT,
            Self::Ts => TYPESCRIPT,
            Self::Python => PYTHON,
        }
    }

    /// Returns the folder of its SDK in a project, and the files in it.
    fn sdk(self) -> (&'static str, Vec<(String, String)>) {
        match self {
            Self::Rust => ("guest-sdk", sdk::rust()),
            Self::Js | Self::Ts => ("host-jobs", sdk::javascript()),
            Self::Python => ("host_jobs", sdk::python()),
        }
    }
}

/// The longest name.
const NAME_CHARS_MAX: usize = 64;

/// Names that crates cannot have, or that would hide a crate of the language or of the template.
const NAMES_TAKEN: &[&str] = &[
    "abstract",
    "alloc",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "cargo",
    "const",
    "continue",
    "core",
    "crate",
    "do",
    "dyn",
    "else",
    "enum",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "guest_sdk",
    "host_guest_sdk",
    "host_jobs",
    "if",
    "impl",
    "in",
    "let",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "override",
    "params",
    "priv",
    "proc_macro",
    "pub",
    "ref",
    "return",
    "run",
    "self",
    "serde",
    "static",
    "std",
    "struct",
    "super",
    "test",
    "trait",
    "true",
    "try",
    "type",
    "typeof",
    "unsafe",
    "unsized",
    "use",
    "virtual",
    "where",
    "while",
    "yield",
];

fn parse_name(text: &str) -> Result<String, String> {
    let starts = text.starts_with(|first: char| first.is_ascii_lowercase());
    let of_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
    if !starts || !text.chars().all(of_name) || text.len() > NAME_CHARS_MAX {
        return Err(format!(
            "a name starts with a lower-case letter and has letters, digits, - and _ only, at most \
             {NAME_CHARS_MAX}"
        ));
    }
    if NAMES_TAKEN.contains(&&*function(text)) {
        return Err("Rust or an SDK uses this name; choose another".to_owned());
    }
    Ok(text.to_owned())
}

/// Returns a name as Rust writes it.
fn function(name: &str) -> String {
    name.replace('-', "_")
}

impl New {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), CliError> {
        let output = self.shown.open();
        let dir = self
            .dir
            .clone()
            .unwrap_or_else(|| PathBuf::from(&self.name));
        let shown = dir.display().to_string();
        let doing = format!("write a new handler to {}", plain::line(&shown));
        let written = self.write(&dir).map_err(|error| {
            CliError::new(Exit::Failed, &doing, error)
                .next("pass --dir with a new or an empty folder")
        })?;
        let document = json!({"name": self.name, "dir": dir, "files": written}).to_string();
        let shown = plain::line(&shown);
        output.print_item(&document, &shown, || {
            written
                .iter()
                .try_for_each(|file| put_line(&plain::line(&dir.join(file).display().to_string())))
        })?;
        output.hint(&format!(
            "`host build {shown} --test` tests and builds it; `host dev {shown}` runs it on each change"
        ));
        Ok(())
    }

    /// Writes the files, none over another. Returns what is new in `dir`.
    fn write(&self, dir: &Path) -> std::io::Result<Vec<String>> {
        let fill = |text: &str| {
            text.replace("{{name}}", &self.name)
                .replace("{{function}}", &function(&self.name))
        };
        let own: Vec<_> = self
            .lang
            .template()
            .iter()
            .map(|(path, text)| (fill(path), fill(text)))
            .collect();
        let (folder, sdk) = self.lang.sdk();
        let mut new: Vec<String> = own.iter().map(|(path, _)| path.clone()).collect();
        new.push(folder.to_owned());
        if let Some(path) = new.iter().find(|path| dir.join(path).exists()) {
            let message = format!("{path} already exists");
            return Err(std::io::Error::other(message));
        }
        let sdk = sdk
            .into_iter()
            .map(|(path, text)| (format!("{folder}/{path}"), text));
        for (path, text) in own.into_iter().chain(sdk) {
            let path = dir.join(path);
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::write(path, text)?;
        }
        Ok(new)
    }
}

#[cfg(test)]
mod tests;
