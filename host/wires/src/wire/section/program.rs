//! The environment of the programs that a wire starts.

use std::collections::BTreeMap;

use super::{ConfigError, NamedTable, Section};

/// The host's variables that every program gets: where programs and folders are, and the language of
/// output. Other variables may be secrets. A literal, for the texts about keys.
macro_rules! inherited_variables {
    () => {
        "PATH, HOME, USER, LOGNAME, LANG, LC_ALL, LC_CTYPE, TZ, TMPDIR, XDG_CACHE_HOME"
    };
}

pub(crate) use inherited_variables;

impl Section<'_> {
    /// Returns the whole environment of a table's programs: some variables of the host, those that
    /// `inherit_env` names, and over them those of `env`.
    pub fn program_env(&self, table: &NamedTable) -> Result<BTreeMap<String, String>, ConfigError> {
        let more = table.strings("inherit_env", "expected an array of variable names")?;
        let mut env = self.inherited(more.unwrap_or_default().iter().map(String::as_str));
        env.extend(table.pairs("env")?);
        Ok(env)
    }

    /// Returns the host's variables that every program gets, and of `more` those that there are.
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
