//! The environment of the programs that a wire starts, from the table that names them.

use std::collections::BTreeMap;

use super::{ConfigError, NamedTable, Section};

/// The host's variables that every program gets: where programs and folders are, and the language of
/// output. Other variables may be secrets.
const INHERITED: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "XDG_CACHE_HOME",
];

impl Section<'_> {
    /// Returns the whole environment of a table's programs: some variables of the host, those that
    /// `inherit_env` names, and over them those of `env`.
    pub fn program_env(&self, table: &NamedTable) -> Result<BTreeMap<String, String>, ConfigError> {
        let more = table.strings("inherit_env", "an array of names of variables is")?;
        let more = more.unwrap_or_default();
        let names = INHERITED
            .iter()
            .copied()
            .chain(more.iter().map(String::as_str));
        let inherited =
            names.filter_map(|name| Some((name.to_owned(), self.variable(name)?.to_owned())));
        let mut env: BTreeMap<String, String> = inherited.collect();
        env.extend(table.pairs("env")?);
        Ok(env)
    }
}
