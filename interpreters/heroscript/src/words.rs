//! Parses the text after an action's name: `key:value`, `key: 'quoted value'`, bare words, comments.
//! Knows nothing about actions.

use std::iter::Peekable;
use std::str::Chars;

use crate::error::SyntaxError;

/// The parsed words, in the order of the script.
#[derive(Debug, Default)]
pub(crate) struct Words {
    pub(crate) pairs: Vec<(String, String)>,
    pub(crate) args: Vec<String>,
}

impl Words {
    /// Removes all pairs with this key and returns the value of the last one.
    pub(crate) fn take(&mut self, key: &str) -> Option<String> {
        let taken = self.pairs.extract_if(.., |(name, _)| name == key);
        taken.last().map(|(_, value)| value)
    }
}

/// Parses all words. The line of an error is counted from 0.
pub(crate) fn read(text: &str) -> Result<Words, SyntaxError> {
    let mut words = Words::default();
    let mut reader = Reader::new(text);
    while reader.skip_to_word() {
        reader.word(&mut words)?;
    }
    Ok(words)
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    line: usize,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            rest: text.chars().peekable(),
            line: 0,
        }
    }

    fn next(&mut self) -> Option<char> {
        let next = self.rest.next();
        self.line += usize::from(next == Some('\n'));
        next
    }

    /// Skips white space and comments, and returns whether a word follows.
    fn skip_to_word(&mut self) -> bool {
        loop {
            while self
                .rest
                .next_if(|c| c.is_whitespace() && *c != '\n')
                .is_some()
            {}
            match self.rest.peek().copied() {
                None => return false,
                Some('\n') => {
                    self.next();
                }
                Some('/') if self.at_comment() => {
                    while self.rest.next_if(|c| *c != '\n').is_some() {}
                }
                Some(_) => return true,
            }
        }
    }

    fn at_comment(&self) -> bool {
        let mut ahead = self.rest.clone();
        ahead.next() == Some('/') && ahead.next() == Some('/')
    }

    fn word(&mut self, words: &mut Words) -> Result<(), SyntaxError> {
        if let Some(text) = self.quoted()? {
            words.args.push(text);
            return Ok(());
        }
        let mut word = String::new();
        while let Some(c) = self.rest.next_if(|c| !c.is_whitespace() && *c != ':') {
            word.push(c);
        }
        if self.rest.next_if_eq(&':').is_none() {
            words.args.push(word);
            return Ok(());
        }
        if word.is_empty() {
            return Err(self.error("missing key before `:`; write key:value"));
        }
        let value = self.value()?;
        words.pairs.push((word, value));
        Ok(())
    }

    /// Reads the value after `key:`, on the same line.
    fn value(&mut self) -> Result<String, SyntaxError> {
        let mut after_space = false;
        while self
            .rest
            .next_if(|c| c.is_whitespace() && *c != '\n')
            .is_some()
        {
            after_space = true;
        }
        if let Some(text) = self.quoted()? {
            return Ok(text);
        }
        let mut value = String::new();
        if after_space && self.at_comment() {
            return Ok(value);
        }
        while let Some(c) = self.rest.next_if(|c| !c.is_whitespace()) {
            value.push(c);
        }
        Ok(value)
    }

    /// Reads a quoted text if one begins here. `\` before a quote of the same kind includes it.
    fn quoted(&mut self) -> Result<Option<String>, SyntaxError> {
        let Some(quote) = self.rest.next_if(|c| matches!(c, '\'' | '"')) else {
            return Ok(None);
        };
        let opened_at = self.line;
        let mut text = String::new();
        loop {
            match self.next() {
                None => {
                    return Err(SyntaxError {
                        line: opened_at,
                        message: format!(
                            "unterminated quote {quote}; close it, and indent continuation lines"
                        ),
                    });
                }
                Some('\\') if self.rest.peek() == Some(&quote) => {
                    self.next();
                    text.push(quote);
                }
                Some(c) if c == quote => break,
                Some(c) => text.push(c),
            }
        }
        if self.rest.peek().is_some_and(|c| !c.is_whitespace()) {
            return Err(self.error("missing space after the closing quote"));
        }
        Ok(Some(without_indent(&text)))
    }

    fn error(&self, message: &str) -> SyntaxError {
        SyntaxError {
            line: self.line,
            message: message.to_owned(),
        }
    }
}

/// Removes the indentation that all lines after the first have in common.
fn without_indent(text: &str) -> String {
    let indent = text
        .lines()
        .skip(1)
        .filter(|line| !line.trim().is_empty())
        .map(|line| line.len() - line.trim_start().len())
        .min()
        .unwrap_or_default();
    let mut lines = text.split('\n');
    let mut cut = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        cut.push('\n');
        cut.push_str(line.get(indent..).unwrap_or_default());
    }
    cut
}
