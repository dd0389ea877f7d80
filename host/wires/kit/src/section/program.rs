//! The programs that a wire starts: their command and their environment.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserializer, Error as _, SeqAccess, Unexpected, Visitor};

use super::Section;

/// The variables of the host that every program gets: the places of programs and folders, and the language
/// of output. Others may contain secrets. A literal, for the descriptions of keys.
#[macro_export]
macro_rules! inherited_variables {
    () => {
        "PATH, HOME, USER, LOGNAME, LANG, LC_ALL, LC_CTYPE, TZ, TMPDIR, XDG_CACHE_HOME"
    };
}

/// A program and its arguments. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command(pub Vec<String>);

impl<'de> Deserialize<'de> for Command {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;
        impl<'de> Visitor<'de> for Words {
            type Value = Command;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of strings, the program first")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, array: A) -> Result<Command, A::Error> {
                match Vec::deserialize(SeqAccessDeserializer::new(array))? {
                    words if words.is_empty() => {
                        Err(A::Error::invalid_value(Unexpected::Str("[]"), &self))
                    }
                    words => Ok(Command(words)),
                }
            }
        }
        deserializer.deserialize_seq(Words)
    }
}

impl Section<'_> {
    /// Returns the whole environment of a program: some variables of the host and those of `inherited`, overridden by
    /// those of `env`.
    pub fn program_env(
        &self,
        env: &BTreeMap<String, String>,
        inherited: &[String],
    ) -> BTreeMap<String, String> {
        let mut all = self.inherited(inherited.iter().map(String::as_str));
        all.extend(env.clone());
        all
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
