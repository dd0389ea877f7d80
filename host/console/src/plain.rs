//! Makes text from guests, jobs and servers safe to print on a terminal: no escape sequence,
//! control character or change of text direction remains.

use std::borrow::Cow;

use host_api::pretty::acts;

/// Returns `text` on one line: escape sequences are removed, other characters that could control a
/// terminal are written as `\u{…}`, newlines and tabs as `\n` and `\t`.
pub fn line(text: &str) -> Cow<'_, str> {
    clean(text, |_| false)
}

/// Does the same as [`line`], but keeps line breaks and tabs.
pub fn block(text: &str) -> Cow<'_, str> {
    clean(text, |c| matches!(c, '\n' | '\t'))
}

fn clean(text: &str, kept: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(|c| acts(c) && !kept(c)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = after_sequence(rest) {
            rest = after;
            continue;
        }
        match c {
            c if kept(c) || !acts(c) => out.push(c),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c => out.extend(c.escape_unicode()),
        }
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
    }
    Cow::Owned(out)
}

/// Returns the text after the escape sequence at the start of `text`. Returns `None` if there is no
/// complete CSI (`ESC [ … letter`) or OSC (`ESC ] … BEL` or `ESC \`) sequence.
fn after_sequence(text: &str) -> Option<&str> {
    let body = text.strip_prefix('\u{1b}')?;
    if let Some(csi) = body.strip_prefix('[') {
        let end = csi.find(|c: char| !matches!(c, ' '..='?'))?;
        let last = csi.get(end..)?.chars().next()?;
        return matches!(last, '@'..='~').then(|| csi.get(end + 1..))?;
    }
    let osc = body.strip_prefix(']')?;
    let end = osc.find(['\u{7}', '\u{1b}', '\n'])?;
    let tail = osc.get(end..)?;
    tail.strip_prefix('\u{7}')
        .or_else(|| tail.strip_prefix("\u{1b}\\"))
}

#[cfg(test)]
mod tests;
