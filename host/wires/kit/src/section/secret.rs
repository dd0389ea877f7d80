//! Secrets: a key names the file or the variable that contains one. Errors name the key and the file or
//! variable, never the secret.

use std::fmt;
use std::path::PathBuf;

use super::{At, ConfigError, Section};

/// A secret, and where it was read.
#[derive(Clone)]
pub struct SecretText {
    origin: String,
    place: String,
    bytes: Vec<u8>,
}

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
        let whole = self.text()?;
        let text = whole.strip_suffix('\n').unwrap_or(whole);
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            let why =
                "the secret is empty or has characters other than printable ASCII without blanks";
            return Err(self.refused(why));
        }
        Ok(text)
    }

    /// Makes the error for this secret; `why` does not quote it.
    pub fn refused(&self, why: impl fmt::Display) -> ConfigError {
        ConfigError::hidden(&self.origin, format!("{why} ({})", self.place))
    }
}

impl Section<'_> {
    /// Reads the file that a key names, or the variable that another key names.
    pub fn secret(
        &self,
        file: Option<&At<PathBuf>>,
        env: Option<&At<String>>,
    ) -> Result<Option<SecretText>, ConfigError> {
        let (origin, place, bytes) = match (file, env) {
            (None, None) => return Ok(None),
            (Some(file), Some(env)) => {
                let message = format!("conflicts with {}; keep one of them", env.origin);
                return Err(file.hidden(message));
            }
            (Some(file), None) => {
                let place = format!("file {}", file.display());
                (&file.origin, place, self.read_file(file)?)
            }
            (None, Some(env)) => {
                let text = self.variable(env).filter(|text| !text.is_empty());
                let message = || format!("the variable {} is not set or empty; set it", env.value);
                let text = text.ok_or_else(|| env.hidden(message()))?;
                let place = format!("variable {}", env.value);
                (&env.origin, place, text.as_bytes().to_vec())
            }
        };
        Ok(Some(SecretText {
            origin: origin.clone(),
            place,
            bytes,
        }))
    }

    /// Returns a text, or that of the file that another key names, with its place.
    pub fn text_or_file(
        &self,
        text: Option<&At<String>>,
        file: Option<&At<PathBuf>>,
    ) -> Result<Option<At<String>>, ConfigError> {
        if let (Some(text), Some(file)) = (text, file) {
            let message = format!("conflicts with {}; keep one of them", file.origin);
            return Err(text.hidden(message));
        }
        let Some(secret) = self.secret(file, None)? else {
            return Ok(text.cloned());
        };
        Ok(Some(At {
            value: secret.text()?.trim().to_owned(),
            origin: secret.origin,
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;

    use super::*;
    use crate::section::TestSources;
    use crate::{Configure, Wire};

    crate::settings! {
        struct Keys "protocol.w." {
            /// A file
            secret_file "FILE": Option<At<PathBuf>>,
            /// A variable
            secret_env "NAME": Option<At<String>>,
        }
    }

    const NOTHING: Configure = |_| Err(ConfigError::hidden("", "not read"));

    const WIRE: Wire = Wire {
        settings: &[Keys::SETTINGS],
        ..Wire::new("w", NOTHING)
    };

    fn files(path: &Path) -> io::Result<Vec<u8>> {
        match path.to_str() {
            Some("sound") => Ok(b"hunter2\n".to_vec()),
            Some("words") => Ok(b"hunter2 hunter3\n".to_vec()),
            Some("empty") => Ok(b"\n".to_vec()),
            Some("binary") => Ok(vec![0xff, b'h']),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn word(file: &str, env: &str) -> Result<Option<String>, String> {
        let file = format!("[protocol.w]\nsecret_file = '{file}'\nsecret_env = '{env}'");
        let sources = TestSources {
            environment: &[("SOUND", "hunter2"), ("NOTHING", ""), ("ODD", "hünter2")],
            file: &file,
            read: &files,
            ..TestSources::default()
        };
        let word = sources.read(&WIRE, |section| {
            let keys: Keys = section.table("protocol.w")?;
            let secret = section.secret(keys.secret_file.as_ref(), keys.secret_env.as_ref())?;
            let shown = format!("{secret:?}");
            assert!(!shown.contains("hunter"), "{shown}");
            secret.map(|it| it.word().map(str::to_owned)).transpose()
        });
        word.map_err(|error| error.to_string())
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
                "secret_file: conflicts with host.toml:3: protocol.w.secret_env",
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
            assert!(error.starts_with("host.toml:"), "{error}");
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("nter"), "{error}");
        }
    }
}
