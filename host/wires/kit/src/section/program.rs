//! The environment of the programs that a wire starts.

use std::collections::BTreeMap;

use super::{ConfigError, NamedTable, Section};

/// The variables of the host that every program gets: the places of programs and folders, and the language
/// of output. Others may contain secrets. A literal, for the descriptions of keys.
#[macro_export]
macro_rules! inherited_variables {
    () => {
        "PATH, HOME, USER, LOGNAME, LANG, LC_ALL, LC_CTYPE, TZ, TMPDIR, XDG_CACHE_HOME"
    };
}

impl Section<'_> {
    /// Returns the whole environment of a table's programs: some variables of the host and those that
    /// `inherit_env` names; the variables of `env` override them.
    pub fn program_env(&self, table: &NamedTable) -> Result<BTreeMap<String, String>, ConfigError> {
        let more = table.strings("inherit_env", "expected an array of variable names")?;
        let mut env = self.inherited(more.unwrap_or_default().iter().map(String::as_str));
        env.extend(table.pairs("env")?);
        Ok(env)
    }

    /// Returns the variables of the host that every program gets, and those of `more` that are set.
    pub fn inherited<'a>(
        &self,
        more: impl IntoIterator<Item = &'a str>,
    ) -> BTreeMap<String, String> {
        let names = inherited_variables!().split(", ").chain(more);
        names
            .filter_map(|name| Some((name.to_owned(), self.variable(name)?.to_owned())))
            .collect()
    }
}
