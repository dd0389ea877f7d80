//! Which host a program uses, and what it shows to it: what is chosen, else the context. Contexts are hosts by
//! name, each with how to reach it and the file of its token. They are kept in
//! `$XDG_CONFIG_HOME/host/contexts.toml`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use host_core::encoding;
use serde::{Deserialize, Serialize};

use super::{Client, SERVER_DEFAULT, TlsFiles, WrongServer};

/// How much of the file of a token is read, in bytes.
const TOKEN_BYTES_MAX: u64 = 4 << 10;

/// The variable with a token.
const TOKEN_ENV: &str = "HOST_TOKEN";

/// Returns a variable's value, unless it is empty.
type Variables<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// One host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Context {
    pub server: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_cert: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_key: Option<PathBuf>,
}

/// All contexts, and which is used if none is named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Contexts {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    pub contexts: BTreeMap<String, Context>,
}

/// What is chosen. What is not comes from the context.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    pub server: Option<String>,
    /// The context to use in place of the current one.
    pub context: Option<String>,
    pub token_file: Option<PathBuf>,
    pub tls: TlsFiles,
}

/// Why no client could be made of a choice.
#[derive(Debug)]
pub enum Unusable {
    /// The address or what belongs to it.
    Server(WrongServer),
    /// No context has this name.
    NoContext(String),
    /// The file with the token cannot be read.
    Token { path: PathBuf, cause: String },
    /// The file with the contexts cannot be read.
    Contexts { path: PathBuf, cause: String },
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(wrong) => wrong.fmt(f),
            Self::NoContext(name) => write!(f, "no context has the name {name}"),
            Self::Token { path, cause } => {
                write!(f, "cannot read the token in {}: {cause}", path.display())
            }
            Self::Contexts { path, cause } => {
                let path = path.display();
                write!(f, "cannot read the contexts in {path}: {cause}")
            }
        }
    }
}

impl std::error::Error for Unusable {}

impl From<WrongServer> for Unusable {
    fn from(wrong: WrongServer) -> Self {
        Self::Server(wrong)
    }
}

impl Choice {
    /// Chooses what variables say: `HOST_SERVER`, `HOST_TOKEN_FILE`, `HOST_CA_FILE`, `HOST_CLIENT_CERT` and
    /// `HOST_CLIENT_KEY`.
    pub fn from_env() -> Self {
        Self::from_variables(&variable)
    }

    fn from_variables(variable: Variables<'_>) -> Self {
        let path = |name| variable(name).map(PathBuf::from);
        Self {
            server: variable("HOST_SERVER").and_then(|server| server.into_string().ok()),
            context: None,
            token_file: path("HOST_TOKEN_FILE"),
            tls: TlsFiles {
                authorities: path("HOST_CA_FILE"),
                certificate: path("HOST_CLIENT_CERT"),
                key: path("HOST_CLIENT_KEY"),
            },
        }
    }

    /// Makes the client.
    pub fn open(&self) -> Result<Client, Unusable> {
        self.open_with(&variable)
    }

    fn open_with(&self, variable: Variables<'_>) -> Result<Client, Unusable> {
        let server = self.server.as_deref().filter(|server| !server.is_empty());
        let (server, context) = match (&self.context, server) {
            // What belongs to a context is shown to no other server.
            (Some(name), _) => (
                None,
                Some(Contexts::load_with(variable)?.get(name)?.clone()),
            ),
            (None, Some(server)) => (Some(server), None),
            (None, None) => (None, current(variable)?),
        };
        let context = context.unwrap_or_default();
        let server = server.unwrap_or(match context.server.as_str() {
            "" => SERVER_DEFAULT,
            server => server,
        });
        let (given, kept) = (self.tls.clone(), context.tls());
        let tls = TlsFiles {
            authorities: given.authorities.or(kept.authorities),
            certificate: given.certificate.or(kept.certificate),
            key: given.key.or(kept.key),
        };
        let client = Client::with_tls(server, &tls)?;
        match self.token(&context, variable)? {
            Some(token) => Ok(client.with_token(&token)?),
            None => Ok(client),
        }
    }

    /// Finds the token: that of the chosen file, of a variable, or of the context.
    fn token(
        &self,
        context: &Context,
        variable: Variables<'_>,
    ) -> Result<Option<String>, Unusable> {
        let file = self.token_file.as_deref();
        if let Some(file) = file.filter(|file| !file.as_os_str().is_empty()) {
            return read(file).map(Some);
        }
        let given = variable(TOKEN_ENV);
        if let Some(token) = given.and_then(|token| token.into_string().ok()) {
            return Ok(Some(token.trim().to_owned()));
        }
        context.token_file.as_deref().map(read).transpose()
    }
}

impl Contexts {
    /// Reads the user's contexts. Without a file there are none.
    pub fn load() -> Result<Self, Unusable> {
        Self::load_with(&variable)
    }

    fn load_with(variable: Variables<'_>) -> Result<Self, Unusable> {
        let Some(path) = path_with(variable) else {
            return Ok(Self::default());
        };
        let text =
            fs::read(&path).and_then(|bytes| encoding::text(bytes).map_err(io::Error::other));
        let read = match text {
            Ok(text) => toml::from_str(&text).map_err(|error| error.message().to_owned()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error.to_string()),
        };
        read.map_err(|cause| Unusable::Contexts { path, cause })
    }

    /// Returns a context by its name.
    pub fn get(&self, name: &str) -> Result<&Context, Unusable> {
        let found = self.contexts.get(name);
        found.ok_or_else(|| Unusable::NoContext(name.to_owned()))
    }
}

impl Context {
    /// Refuses an address or files that no program could use.
    pub fn check(&self) -> Result<(), Unusable> {
        let client = Client::with_tls(&self.server, &self.tls())?;
        if let Some(token) = self.token_file.as_deref().map(read).transpose()? {
            client.with_token(&token)?;
        }
        Ok(())
    }

    fn tls(&self) -> TlsFiles {
        TlsFiles {
            authorities: self.ca_file.clone(),
            certificate: self.client_cert.clone(),
            key: self.client_key.clone(),
        }
    }
}

fn current(variable: Variables<'_>) -> Result<Option<Context>, Unusable> {
    let contexts = Contexts::load_with(variable)?;
    let current = contexts.current.as_deref();
    current.map(|name| contexts.get(name).cloned()).transpose()
}

/// Reads the file of a token. Its contents are in no error.
fn read(path: &Path) -> Result<String, Unusable> {
    let mut text = String::new();
    let read =
        File::open(path).and_then(|file| file.take(TOKEN_BYTES_MAX).read_to_string(&mut text));
    read.map_err(|error| Unusable::Token {
        path: path.to_owned(),
        cause: error.to_string(),
    })?;
    Ok(text.trim().to_owned())
}

/// Reads a variable of the user's environment. An empty one counts as unset.
#[expect(
    clippy::disallowed_methods,
    reason = "what is read is not the configuration of a host"
)]
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|text| !text.is_empty())
}

/// Returns where the contexts are kept.
pub fn contexts_path() -> Option<PathBuf> {
    path_with(&variable)
}

fn path_with(variable: Variables<'_>) -> Option<PathBuf> {
    let base = match (variable("XDG_CONFIG_HOME"), variable("HOME")) {
        (Some(config), _) => PathBuf::from(config),
        (None, Some(home)) => PathBuf::from(home).join(".config"),
        (None, None) => return None,
    };
    Some(base.join("host/contexts.toml"))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use ureq::http::HeaderMap;
    use ureq::http::header::AUTHORIZATION;

    use super::*;

    /// What all clients agree on.
    const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/cases.json");

    #[test]
    fn the_cases_of_all_clients() {
        let text = fs::read_to_string(CASES).unwrap();
        let cases: Vec<Value> = serde_json::from_str(&text).unwrap();
        // A choice does not know whether a person or a variable has chosen its server: the command line refuses both.
        let has_both = |case: &&Value| case["given"].is_string() && case["context"].is_string();
        for case in cases.iter().filter(|case| !has_both(case)) {
            check(case);
        }
    }

    fn check(case: &Value) {
        let folder = tempfile::tempdir().unwrap();
        let token_file = folder.path().join("token");
        fs::write(&token_file, "hst_file\n").unwrap();
        let filled = |text: &str| text.replace("{token_file}", &token_file.display().to_string());
        fs::create_dir(folder.path().join("host")).unwrap();
        if let Some(contexts) = case["contexts"].as_str() {
            let path = folder.path().join("host/contexts.toml");
            fs::write(path, filled(contexts)).unwrap();
        }
        let variables = |name: &str| match name {
            "XDG_CONFIG_HOME" => Some(folder.path().as_os_str().to_owned()),
            name => {
                let value = case["env"][name].as_str().filter(|it| !it.is_empty());
                value.map(|value| filled(value).into())
            }
        };
        let text = |key: &str| case[key].as_str().map(str::to_owned);
        let mut choice = Choice::from_variables(&variables);
        choice.server = text("given").or(choice.server);
        choice.context = text("context");
        let (then, opened) = (&case["then"], choice.open_with(&variables));
        if let Some(refused) = then["refused"].as_str() {
            let shown =
                opened.map_or_else(|error| error.to_string(), |client| format!("{client:?}"));
            assert!(shown.contains(refused), "{case}: {shown}");
            assert!(!shown.contains("hst_env"), "{case}: {shown}");
            return;
        }
        let client = opened.unwrap_or_else(|error| panic!("{case}: {error}"));
        assert_eq!(client.base, then["server"], "{case}");
        let mut headers = HeaderMap::new();
        client.token.iter().for_each(|it| it.add_to(&mut headers));
        let token = headers
            .get(AUTHORIZATION)
            .map(|it| it.to_str().unwrap())
            .and_then(|it| it.strip_prefix("Bearer "));
        assert_eq!(token, then["token"].as_str(), "{case}");
        assert!(!format!("{client:?}").contains("hst_"), "{case}");
    }
}
