//! Finds why a guest aborted in the end of its standard error: a Rust panic, or an uncaught exception of
//! Python (componentize-py) or JavaScript (componentize-js).

/// The header of a Python traceback.
const TRACEBACK: &str = "Traceback (most recent call last):";

/// The message of componentize-py when it aborts on an exception.
const PYTHON_ABORTS: &str = "Python function threw an unexpected exception";

/// What precedes the frames of a JavaScript exception.
const STACK: &str = "Stack:";

/// What surrounds an exception that componentize-js cannot return, because it is not a failure that a handler
/// may return.
const RECEIVED: (&str, &str) = ("(received `", "`) specified for `");

/// A panic or an exception.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Thrown {
    pub(super) message: String,
    /// The frames in the guest's own language, if they are known.
    pub(super) stack: Option<String>,
}

/// Returns what the last lines of standard error reveal.
pub(super) fn find(stderr: &[String]) -> Option<Thrown> {
    let panic = stderr
        .iter()
        .rposition(|line| line.contains("panicked at "));
    if let Some(at) = panic {
        let is_python = stderr[at + 1..]
            .first()
            .is_some_and(|line| line == PYTHON_ABORTS);
        let exception = is_python.then(|| python(&stderr[..at])).flatten();
        return exception.or_else(|| rust(&stderr[at..]));
    }
    javascript(stderr)
}

/// Reads the message of a Rust panic.
fn rust(lines: &[String]) -> Option<Thrown> {
    let (first, rest) = lines.split_first()?;
    let place = first.split("panicked at ").nth(1)?.trim_end_matches(':');
    let message: Vec<_> = rest
        .iter()
        .take_while(|line| !line.starts_with("note: "))
        .map(String::as_str)
        .collect();
    Some(Thrown {
        message: format!("panicked at {place}: {}", message.join("\n")),
        stack: None,
    })
}

/// Reads an exception, with those that caused it. Its first lines may be missing if it is long.
fn python(lines: &[String]) -> Option<Thrown> {
    let header = |line: &String| line == TRACEBACK;
    let first = lines.iter().position(header).unwrap_or(0);
    let last = lines.iter().rposition(header).map_or(0, |at| at + 1);
    let rest: Vec<_> = lines
        .get(last..)?
        .iter()
        .skip_while(|line| line.starts_with(' '))
        .map(String::as_str)
        .collect();
    let message = rest.join("\n").trim_end().to_owned();
    if message.is_empty() {
        return None;
    }
    let stack = lines.get(first..)?.join("\n").trim_end().to_owned();
    Some(Thrown {
        message,
        stack: Some(stack),
    })
}

/// Reads an exception and its frames.
fn javascript(lines: &[String]) -> Option<Thrown> {
    let at = lines.iter().rposition(|line| line == STACK)?;
    let line = lines.get(at.checked_sub(1)?)?;
    let frames: Vec<_> = lines
        .get(at + 1..)?
        .iter()
        .take_while(|line| line.starts_with(' '))
        .map(|line| line.trim())
        .collect();
    let received = line
        .split_once(RECEIVED.0)
        .map(|(_, rest)| rest)
        .and_then(|rest| Some(rest.rsplit_once(RECEIVED.1)?.0));
    Some(Thrown {
        message: received.unwrap_or(line).to_owned(),
        stack: (!frames.is_empty()).then(|| frames.join("\n")),
    })
}

#[cfg(test)]
mod tests;
