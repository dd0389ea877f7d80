//! Parses a script into actions, line by line: where an action begins, which lines continue it, and
//! which comment belongs to it. `words` parses the content of an action.

use crate::action::{Action, Level};
use crate::error::SyntaxError;
use crate::words;

/// The actor of an action that names none.
const DEFAULT_ACTOR: &str = "core";

/// An action whose end has not been read yet.
struct Open {
    line: usize,
    level: Level,
    actor: String,
    name: String,
    comments: String,
    words: String,
}

/// Parses a script. Skips text that is not an action, the continuation of one, or a comment.
pub fn parse(script: &str) -> Result<Vec<Action>, SyntaxError> {
    let mut actions = Vec::new();
    let mut open: Option<Open> = None;
    let mut comments: Vec<&str> = Vec::new();
    for (index, line) in script.lines().enumerate() {
        let number = index + 1;
        let text = line.trim();
        let continues = line.starts_with("  ") || line.starts_with('\t') || text.is_empty();
        if let Some(action) = &mut open
            && continues
            && !begins(text)
        {
            action.words.push('\n');
            action.words.push_str(line);
            continue;
        }
        if let Some(ended) = open.take() {
            actions.push(close(ended)?);
        }
        if begins(text) {
            let mut begun = head(number, text)?;
            begun.comments = std::mem::take(&mut comments).join("\n");
            open = Some(begun);
        } else if let Some(comment) = text.strip_prefix("//") {
            comments.push(comment.trim_start_matches('/').trim());
        } else if !text.is_empty() {
            comments.clear();
        }
    }
    if let Some(ended) = open {
        actions.push(close(ended)?);
    }
    Ok(actions)
}

/// Returns whether a line begins an action. `![` does not: it begins an image in Markdown.
fn begins(text: &str) -> bool {
    text.starts_with('!') && !text.starts_with("![")
}

/// Parses the first line of an action.
fn head(line: usize, text: &str) -> Result<Open, SyntaxError> {
    let error_at = |message: String| SyntaxError { line, message };
    let (full_name, words) = match text.find(char::is_whitespace) {
        Some(end) => text.split_at(end),
        None => (text, ""),
    };
    let path = full_name.trim_start_matches('!');
    let marks = full_name.len() - path.len();
    let level = match marks {
        1 => Level::Dal,
        2 => Level::Sal,
        3 => Level::Macro,
        4 => Level::Wal,
        _ => {
            return Err(error_at(format!(
                "an action cannot start with {marks} x !; use one to four"
            )));
        }
    };
    let (actor, name) = path.split_once('.').unwrap_or((DEFAULT_ACTOR, path));
    for part in [actor, name] {
        let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if part.is_empty() || !part.chars().all(allowed) {
            return Err(error_at(format!(
                "expected actor.action, both of letters, digits, _ and -; found {:?}",
                shortened(path)
            )));
        }
    }
    Ok(Open {
        line,
        level,
        actor: actor.to_owned(),
        name: name.to_owned(),
        comments: String::new(),
        words: words.to_owned(),
    })
}

fn close(open: Open) -> Result<Action, SyntaxError> {
    let mut read = words::read(&open.words).map_err(|error| SyntaxError {
        line: open.line + error.line,
        message: error.message,
    })?;
    let id = read.take("id");
    Ok(Action {
        level: open.level,
        actor: open.actor,
        name: open.name,
        id,
        comments: open.comments,
        params: read.pairs,
        args: read.args,
        line: open.line,
    })
}

fn shortened(text: &str) -> String {
    text.chars().take(64).collect()
}
