//! Secrets: a key names the file or the variable that contains one. Errors name the key and the file or
//! variable, never the secret.

use std::fmt;
use std::path::Path;

use super::{ConfigError, NamedTable, Section};
use crate::settings::Setting;

/// A secret, and where it was read.
#[derive(Clone)]
pub struct SecretText {
    origin: String,
    place: String,
    bytes: Vec<u8>,
}

/// The value of a key, and where it is set.
type Stated<'a> = Option<(String, &'a str)>;

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the secret of {} ({})", self.origin, self.place)
    }
}

impl SecretText {
    /// Returns where its key is set.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Returns it as it was read.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns it as text.
    pub fn text(&self) -> Result<&str, ConfigError> {
        std::str::from_utf8(&self.bytes).map_err(|_| self.refused("the file is not text"))
    }

    /// Returns it as text for a header, without a newline at the end.
    pub fn word(&self) -> Result<&str, ConfigError> {
        let text = self.text()?;
        let text = text.strip_suffix('\n').unwrap_or(text);
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            let why =
                "the secret is empty or has characters other than printable ASCII without blanks";
            return Err(self.refused(why));
        }
        Ok(text)
    }

    /// Makes the error for this secret; `why` does not quote it.
    pub fn refused(&self, why: impl fmt::Display) -> ConfigError {
        ConfigError::Hidden {
            origin: self.origin.clone(),
            message: format!("{why} ({})", self.place),
        }
    }
}

impl Section<'_> {
    /// Reads the file that the key `file` names, or the variable that the key `env` names; a wire may have
    /// only one of the keys. Empty keys count as absent.
    pub fn secret(
        &self,
        file: Option<&Setting>,
        env: Option<&Setting>,
    ) -> Result<Option<SecretText>, ConfigError> {
        let stated = |setting: Option<&Setting>| self.find_text(setting?);
        self.read_secret(stated(file), stated(env))
    }

    /// The same for keys of a table.
    pub fn table_secret(
        &self,
        table: &NamedTable,
        file: &str,
        env: &str,
    ) -> Result<Option<SecretText>, ConfigError> {
        let stated = |key: &str| {
            let text = table.text(key)?;
            Ok(text.map(|text| (table.origin(key), text)))
        };
        self.read_secret(stated(file)?, stated(env)?)
    }

    fn read_secret(
        &self,
        file: Stated<'_>,
        env: Stated<'_>,
    ) -> Result<Option<SecretText>, ConfigError> {
        let hidden = |origin: String, message: String| ConfigError::Hidden { origin, message };
        match (file, env) {
            (None, None) => Ok(None),
            (Some((origin, _)), Some((other, _))) => {
                let message = format!("conflicts with {other}; keep one of them");
                Err(hidden(origin, message))
            }
            (Some((origin, path)), None) => match (self.sources.read)(Path::new(path)) {
                Ok(bytes) => Ok(Some(SecretText {
                    origin,
                    place: format!("file {path}"),
                    bytes,
                })),
                Err(error) => Err(hidden(origin, format!("cannot read {path}: {error}"))),
            },
            (None, Some((origin, name))) => match self.variable(name) {
                Some(text) if !text.is_empty() => Ok(Some(SecretText {
                    origin,
                    place: format!("variable {name}"),
                    bytes: text.as_bytes().to_vec(),
                })),
                _ => {
                    let message = format!("the variable {name} is not set or empty; set it");
                    Err(hidden(origin, message))
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io;

    use super::*;
    use crate::section::{Sources, Stated as Written};
    use crate::settings::Kind;

    const SECRET_FILE: Setting = setting("w.secret_file");
    const SECRET_ENV: Setting = setting("w.secret_env");

    const fn setting(key: &'static str) -> Setting {
        Setting {
            key,
            kind: Kind::Text("X"),
            default: "none",
            about: "",
            flag: None,
        }
    }

    fn files(path: &Path) -> io::Result<Vec<u8>> {
        match path.to_str() {
            Some("sound") => Ok(b"hunter2\n".to_vec()),
            Some("words") => Ok(b"hunter2 hunter3\n".to_vec()),
            Some("empty") => Ok(b"\n".to_vec()),
            Some("binary") => Ok(vec![0xff, b'h']),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Reads a word by keys of the section and by those of a table, which must come out the same.
    fn word(file: &str, env: &str) -> Result<Option<String>, String> {
        let nothing = BTreeMap::new();
        let environment = [("SOUND", "hunter2"), ("NOTHING", ""), ("ODD", "hünter2")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        let written = |(key, text): (&str, &str)| {
            let origin = format!("host.toml: w.{key}");
            let text = text.to_owned();
            (format!("w.{key}"), Written { origin, text })
        };
        let keys = [("secret_file", file), ("secret_env", env)];
        let sources = Sources {
            flags: &nothing,
            environment: &environment,
            values: &keys.map(written).into(),
            tables: &BTreeMap::new(),
            read: &files,
        };
        let section = Section::new(sources);
        let table = keys.iter().filter(|(_, text)| !text.is_empty());
        let table = table.map(|(key, text)| ((*key).to_owned(), toml::Value::from(*text)));
        let table = NamedTable::new("host.toml: w".to_owned(), table.collect());
        let read = |secret: Result<Option<SecretText>, ConfigError>| {
            let word = secret.and_then(|secret| {
                let shown = format!("{secret:?}");
                assert!(!shown.contains("hunter"), "{shown}");
                secret.map(|it| it.word().map(str::to_owned)).transpose()
            });
            word.map_err(|error| error.to_string())
        };
        let of_section = read(section.secret(Some(&SECRET_FILE), Some(&SECRET_ENV)));
        let of_table = read(section.table_secret(&table, "secret_file", "secret_env"));
        assert_eq!(of_section, of_table);
        of_section
    }

    #[test]
    fn a_secret_is_in_a_file_or_a_variable() {
        let sound = Ok(Some("hunter2".to_owned()));
        assert_eq!(word("", ""), Ok(None));
        assert_eq!(word("sound", ""), sound);
        assert_eq!(word("", "SOUND"), sound);
    }

    #[test]
    fn a_refusal_names_key_and_place_and_shows_no_secret() {
        for (file, env, expected) in [
            (
                "sound",
                "SOUND",
                "secret_file: conflicts with host.toml: w.secret_env",
            ),
            ("nowhere", "", "secret_file: cannot read nowhere"),
            (
                "binary",
                "",
                "secret_file: the file is not text (file binary)",
            ),
            ("empty", "", "secret_file: the secret is empty or"),
            ("words", "", "without blanks (file words)"),
            (
                "",
                "UNSET",
                "secret_env: the variable UNSET is not set or empty; set it",
            ),
            (
                "",
                "NOTHING",
                "secret_env: the variable NOTHING is not set or empty",
            ),
            ("", "ODD", "without blanks (variable ODD)"),
        ] {
            let error = word(file, env).unwrap_err();
            assert!(error.starts_with("host.toml: w.secret_"), "{error}");
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("nter"), "{error}");
        }
    }
}
