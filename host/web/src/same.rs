//! How to get elsewhere what a page shows: one line for a shell with the command line, and one with curl. Both mean the
//! host at the address that the browser has, and neither has a token in it.

use std::fmt::Write as _;

use host_api::path::SERVER_DEFAULT;
use host_api::pretty::acts;
use serde::Serialize;

/// A command, without the program and the host that it asks.
pub(crate) struct Command(String);

impl Command {
    /// Begins with a noun and a verb.
    pub(crate) fn new(words: &str) -> Self {
        Self(words.to_owned())
    }

    /// Adds an option, unless its value is empty.
    pub(crate) fn option(self, name: &str, value: &str) -> Self {
        if value.is_empty() {
            return self;
        }
        // Otherwise a value that begins with a dash would be an option.
        let joint = if value.starts_with('-') { '=' } else { ' ' };
        Self(format!("{} {name}{joint}{}", self.0, quoted(value)))
    }

    /// Adds what the command is about. No option may follow.
    pub(crate) fn name(self, name: &str) -> Self {
        let mark = if name.starts_with('-') { "-- " } else { "" };
        Self(format!("{} {mark}{}", self.0, quoted(name)))
    }

    /// Writes the line for a shell. `origin` is that of the host.
    pub(crate) fn line(&self, origin: &str) -> String {
        let server = if origin == SERVER_DEFAULT {
            String::new()
        } else {
            format!(" --server {}", quoted(origin))
        };
        format!("host{server} {}", self.0)
    }
}

impl From<&str> for Command {
    fn from(words: &str) -> Self {
        Self::new(words)
    }
}

/// Returns an address with parameters.
pub(crate) fn with_query(path: impl Into<String>, query: &impl Serialize) -> String {
    let path = path.into();
    match serde_urlencoded::to_string(query).unwrap_or_default() {
        query if query.is_empty() => path,
        query => format!("{path}?{query}"),
    }
}

/// Writes the line that asks the API with curl. A host with tokens takes the one in `HOST_TOKEN`.
pub(crate) fn curl(origin: &str, api: &str, needs_token: bool) -> String {
    let token = if needs_token {
        "-H \"Authorization: Bearer $HOST_TOKEN\" "
    } else {
        ""
    };
    format!("curl {token}{}", quoted(&format!("{origin}{api}")))
}

/// Quotes a word for a shell, if it has more than what is a word anyway. A character that could control the terminal that
/// the line is pasted into is written as `printf` reads it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/@%+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    let is_escaped = word.contains(acts);
    let mut text = String::new();
    for c in word.chars() {
        match c {
            '\'' => text.push_str(r"'\''"),
            '\\' if is_escaped => text.push_str(r"\\"),
            c if acts(c) => {
                for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                    let _ = write!(text, "\\0{byte:03o}");
                }
            }
            c => text.push(c),
        }
    }
    if is_escaped {
        format!("\"$(printf %b '{text}')\"")
    } else {
        format!("'{text}'")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_and_the_host_is_named_unless_it_is_the_usual_one() {
        let show = |name: &str| Command::new("job show").name(name).line(SERVER_DEFAULT);
        for (name, line) in [
            ("mail:a/b", "host job show mail:a/b"),
            ("-x", "host job show -- -x"),
            ("it's", r"host job show 'it'\''s'"),
            ("$(id) #", "host job show '$(id) #'"),
            (r"a\b", r"host job show 'a\b'"),
            ("", "host job show ''"),
            (
                "\u{1b}[2J\\'",
                r#"host job show "$(printf %b '\0033[2J\\'\''')""#,
            ),
            (
                "\u{202e}a",
                r#"host job show "$(printf %b '\0342\0200\0256a')""#,
            ),
        ] {
            assert_eq!(show(name), line, "{name:?}");
        }
        let list = Command::new("job ls")
            .option("--queue", "")
            .option("--filter", "queue:a b");
        assert_eq!(
            list.option("--sort", "-x").line("https://jobs.example"),
            "host --server https://jobs.example job ls --filter 'queue:a b' --sort=-x"
        );
    }

    #[test]
    fn curl_gets_the_token_from_the_environment() {
        let api = with_query("/api/v1/jobs", &[("q", "state:failed a'b")]);
        assert_eq!(
            curl(SERVER_DEFAULT, &api, false),
            "curl 'http://127.0.0.1:7700/api/v1/jobs?q=state%3Afailed+a%27b'"
        );
        assert_eq!(
            curl("http://h", "/x", true),
            "curl -H \"Authorization: Bearer $HOST_TOKEN\" http://h/x"
        );
    }
}
