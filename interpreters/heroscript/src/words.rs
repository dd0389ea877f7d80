//! What stands behind an action's name: `key:value`, `key: 'quoted value'`, bare words, comments.
//! Knows nothing of actions.

use std::iter::Peekable;
use std::str::Chars;

use crate::parse::Fault;

/// What was read, in the script's order.
#[derive(Debug, Default)]
pub(crate) struct Words {
    pub(crate) pairs: Vec<(String, String)>,
    pub(crate) args: Vec<String>,
}

impl Words {
    /// Takes all pairs of a key out and returns the last one's value.
    pub(crate) fn take(&mut self, key: &str) -> Option<String> {
        let taken = self.pairs.extract_if(.., |(name, _)| name == key);
        taken.last().map(|(_, value)| value)
    }
}

/// Reads all words. Lines in a fault are counted from 0.
pub(crate) fn read(text: &str) -> Result<Words, Fault> {
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

    /// Skips white space and comments and tells whether a word follows.
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

    fn word(&mut self, words: &mut Words) -> Result<(), Fault> {
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
            return Err(self.fault("a value has no key before its `:`"));
        }
        let value = self.value()?;
        words.pairs.push((word, value));
        Ok(())
    }

    /// Reads what stands behind `key:`, on the same line.
    fn value(&mut self) -> Result<String, Fault> {
        let mut apart = false;
        while self
            .rest
            .next_if(|c| c.is_whitespace() && *c != '\n')
            .is_some()
        {
            apart = true;
        }
        if let Some(text) = self.quoted()? {
            return Ok(text);
        }
        let mut value = String::new();
        if apart && self.at_comment() {
            return Ok(value);
        }
        while let Some(c) = self.rest.next_if(|c| !c.is_whitespace()) {
            value.push(c);
        }
        Ok(value)
    }

    /// Reads a text in quotes, if one begins here; `\` keeps a quote of the same kind in it.
    fn quoted(&mut self) -> Result<Option<String>, Fault> {
        let Some(quote) = self.rest.next_if(|c| matches!(c, '\'' | '"')) else {
            return Ok(None);
        };
        let begun = self.line;
        let mut text = String::new();
        loop {
            match self.next() {
                None => {
                    return Err(Fault {
                        line: begun,
                        message: format!(
                            "the quote {quote} that begins here does not end; lines that go on are indented"
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
            return Err(self.fault("a space is missing behind a closing quote"));
        }
        Ok(Some(without_indent(&text)))
    }

    fn fault(&self, message: &str) -> Fault {
        Fault {
            line: self.line,
            message: message.to_owned(),
        }
    }
}

/// Takes the indentation that all lines but the first share off a text of several lines.
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
