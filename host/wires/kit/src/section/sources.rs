//! The sources of a section, as tests write them.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use super::{ConfigError, Document, Section, Stated};
use crate::Wire;

/// What a test gives a wire as its configuration.
#[derive(Clone, Copy)]
pub struct TestSources<'a> {
    /// Options, by key.
    pub flags: &'a [(&'a str, &'a str)],
    /// Variables.
    pub environment: &'a [(&'a str, &'a str)],
    /// The text of `host.toml`.
    pub file: &'a str,
    /// Reads a file that a value names.
    pub read: &'a dyn Fn(&Path) -> io::Result<Vec<u8>>,
}

impl Default for TestSources<'_> {
    fn default() -> Self {
        Self {
            flags: &[],
            environment: &[],
            file: "",
            read: &|path| std::fs::read(path),
        }
    }
}

impl TestSources<'_> {
    /// Reads the section of a wire with `read`.
    pub fn read<T>(
        &self,
        wire: &Wire,
        read: impl FnOnce(&Section<'_>) -> Result<T, ConfigError>,
    ) -> Result<T, ConfigError> {
        let owned = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
        let environment: BTreeMap<_, _> = self.environment.iter().map(owned).collect();
        let stated = |(key, text): &(&str, &str)| ((*key).to_owned(), Stated::by_flag(key, *text));
        let flags = self.flags.iter().map(stated).collect();
        let document = Document::parse(Path::new("host.toml"), self.file)?;
        read(&Section {
            document: &document.with(wire.keys(), &environment, &flags),
            environment: &environment,
            read: self.read,
        })
    }
}
