//! A project in each language, with what languages are compared by: `count` counts the lines and words of a text, and
//! `spin` logs a line and never ends by itself. Another one shows what a warm start saves: its handlers return the same,
//! from no table, from one that is made at import, and from one that each job makes. A third one is compared with Node and
//! `CPython`, which run the same files.

use std::path::PathBuf;
use std::process::Command;

use super::{component, starlingmonkey};

type Files = &'static [(&'static str, &'static str)];

/// A language of handlers.
#[derive(Clone, Copy, Debug)]
pub struct Language {
    /// Its name, with that of what runs it.
    pub name: &'static str,
    /// The name of its project.
    pub project: &'static str,
    /// What `host new` calls it.
    lang: &'static str,
    /// What the project has instead of the files of `host new`. Their tests are about another handler.
    files: Files,
    /// The same for the project about a warm start, if the language has one.
    warm: Option<Files>,
    /// The same for the project that is compared with what runs the language natively, if there is one.
    compare: Option<Files>,
    /// A program and the file that calls handlers there.
    native: (&'static str, &'static str),
}

const JAVASCRIPT: Files = &[
    ("handlers.js", include_str!("handlers.js")),
    ("handlers.test.js", ""),
];

const JAVASCRIPT_WARM: Files = &[
    ("handlers.js", include_str!("warm.js")),
    ("handlers.test.js", ""),
];

const JAVASCRIPT_COMPARE: Files = &[
    ("handlers.js", include_str!("compare.js")),
    ("handlers.test.js", ""),
    ("native.mjs", include_str!("native.mjs")),
];

const NODE: (&str, &str) = ("node", "native.mjs");

/// The handlers that compare languages.
pub const COMPARED: [&str; 4] = ["text", "json", "promises", "recursion"];

pub const RUST: Language = Language {
    name: "Rust",
    project: "languages-rust",
    lang: "rust",
    files: &[("src/lib.rs", include_str!("lib.rs.in"))],
    warm: None,
    compare: None,
    native: ("", ""),
};

pub const QUICKJS: Language = Language {
    name: "JavaScript in QuickJS",
    project: "languages-quickjs",
    lang: "js",
    files: JAVASCRIPT,
    warm: Some(JAVASCRIPT_WARM),
    compare: Some(JAVASCRIPT_COMPARE),
    native: NODE,
};

pub const TYPESCRIPT: Language = Language {
    name: "TypeScript in QuickJS",
    project: "languages-typescript",
    lang: "ts",
    files: &[
        ("handlers.ts", include_str!("handlers.ts")),
        ("handlers.test.ts", ""),
    ],
    warm: None,
    compare: None,
    native: ("", ""),
};

pub const STARLINGMONKEY: Language = Language {
    name: "JavaScript in StarlingMonkey",
    project: "languages-starlingmonkey",
    lang: "js",
    files: JAVASCRIPT,
    warm: Some(JAVASCRIPT_WARM),
    compare: Some(JAVASCRIPT_COMPARE),
    native: NODE,
};

pub const PYTHON: Language = Language {
    name: "Python",
    project: "languages-python",
    lang: "python",
    files: &[
        ("handlers.py", include_str!("handlers.py")),
        ("test_handlers.py", ""),
    ],
    warm: Some(&[
        ("handlers.py", include_str!("warm.py")),
        ("test_handlers.py", ""),
    ]),
    compare: Some(&[
        ("handlers.py", include_str!("compare.py")),
        ("test_handlers.py", ""),
        ("native.py", include_str!("native.py")),
    ]),
    native: ("python3", "native.py"),
};

impl Language {
    /// Returns its component, as [`component`] does.
    ///
    /// # Panics
    ///
    /// If it cannot be built.
    pub fn component(&self) -> PathBuf {
        self.built(self.project, self.files)
    }

    /// Returns the component about a warm start, if the language has one.
    ///
    /// # Panics
    ///
    /// If it cannot be built.
    pub fn warm(&self) -> Option<PathBuf> {
        let project = format!("{}-warm", self.project);
        Some(self.built(&project, self.warm?))
    }

    /// Returns the component with the handlers of [`COMPARED`], and a command that calls them natively, if there is one.
    ///
    /// # Panics
    ///
    /// If it cannot be built.
    pub fn compared(&self) -> Option<(PathBuf, Command)> {
        let project = format!("{}-compare", self.project);
        let component = self.built(&project, self.compare?);
        let (program, file) = self.native;
        let mut command = Command::new(program);
        command.arg(file).args(COMPARED);
        command.current_dir(super::folder().join(project));
        Some((component, command))
    }

    fn built(&self, project: &str, files: Files) -> PathBuf {
        if self.project != STARLINGMONKEY.project {
            return component(project, self.lang, files);
        }
        let package = starlingmonkey(project, "javascript");
        let files = [files, &[("package.json", &*package)]].concat();
        component(project, self.lang, &files)
    }
}
