//! Globs over paths and names: `*` matches any text without `/`, `**` as a whole segment any number of segments, `?` one
//! character but `/`, `[a-z]` one of a class, `{a,b}` one of several texts; `\` takes away the meaning of the next one.
//!
//! What a match costs is bounded by the lengths of the glob and the text alone.

use thiserror::Error;

/// The most braces of a glob.
const BRACES_MAX: usize = 10;

/// The most globs without braces into which a glob expands.
const ALTERNATIVES_MAX: usize = 64;

/// The most bytes that these have together, if there are several.
const ALTERNATIVES_BYTES_MAX: usize = 1 << 10;

/// How many places are in a word.
const WORD: usize = u64::BITS as usize;

/// How many different bytes there are.
const BYTES: usize = 1 << u8::BITS;

/// What a text lacks to be a glob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum GlobError {
    #[error("a `}}` for each `{{`")]
    Brace,
    #[error("a `]` for each `[`")]
    Class,
    #[error("a character after each `\\`")]
    Escape,
    #[error(
        "braces for at most {ALTERNATIVES_MAX} alternatives, which have at most {ALTERNATIVES_BYTES_MAX} bytes together"
    )]
    Alternatives,
    #[error("at most {BRACES_MAX} braces")]
    Braces,
}

/// Checks that a text is a glob.
pub fn check(glob: &str) -> Result<(), GlobError> {
    Automaton::parse(glob.as_bytes()).map(drop)
}

/// Returns whether a text matches a glob. None matches what is not a glob.
pub fn matches(glob: &str, text: &str) -> bool {
    Automaton::parse(glob.as_bytes()).is_ok_and(|automaton| automaton.accepts(text.as_bytes()))
}

/// A glob whose first braces are expanded.
struct Unexpanded {
    glob: Vec<u8>,
    /// No brace opens before this place.
    from: usize,
    braces: usize,
}

/// Returns the globs without braces into which a glob expands.
fn expand(glob: &[u8]) -> Result<Vec<Vec<u8>>, GlobError> {
    let (mut expanded, mut bytes) = (Vec::new(), 0);
    let mut rest = vec![Unexpanded {
        glob: glob.to_vec(),
        from: 0,
        braces: 0,
    }];
    while let Some(Unexpanded { glob, from, braces }) = rest.pop() {
        let Some(open) = find_brace(&glob, from)? else {
            bytes += glob.len();
            expanded.push(glob);
            if expanded.len() > 1 && bytes > ALTERNATIVES_BYTES_MAX {
                return Err(GlobError::Alternatives);
            }
            continue;
        };
        let (options, close) = split_brace(&glob, open)?;
        if braces == BRACES_MAX {
            return Err(GlobError::Braces);
        }
        if expanded.len() + rest.len() + options.len() > ALTERNATIVES_MAX {
            return Err(GlobError::Alternatives);
        }
        for option in options {
            rest.push(Unexpanded {
                glob: [&glob[..open], option, &glob[close + 1..]].concat(),
                from: open,
                braces: braces + 1,
            });
        }
    }
    Ok(expanded)
}

/// Returns where the first brace opens.
fn find_brace(glob: &[u8], from: usize) -> Result<Option<usize>, GlobError> {
    let mut at = from;
    while let Some(byte) = glob.get(at) {
        if *byte == b'{' {
            return Ok(Some(at));
        }
        at = end_item(glob, at)?;
    }
    Ok(None)
}

/// Returns the options of the brace that opens at `open`, and where it closes.
fn split_brace(glob: &[u8], open: usize) -> Result<(Vec<&[u8]>, usize), GlobError> {
    let (mut options, mut depth) = (Vec::new(), 0_usize);
    let (mut start, mut at) = (open + 1, open + 1);
    while let Some(byte) = glob.get(at) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth > 0 => depth -= 1,
            b',' | b'}' if depth == 0 => {
                options.push(&glob[start..at]);
                start = at + 1;
                if *byte == b'}' {
                    return Ok((options, at));
                }
            }
            _ => {}
        }
        at = end_item(glob, at)?;
    }
    Err(GlobError::Brace)
}

/// Returns the end of the byte, the escape or the class at a place.
fn end_item(glob: &[u8], at: usize) -> Result<usize, GlobError> {
    match glob[at] {
        b'[' => Class::parse(glob, at).map(|(_, end)| end),
        b'\\' if at + 1 == glob.len() => Err(GlobError::Escape),
        b'\\' => Ok(at + 2),
        _ => Ok(at + 1),
    }
}

/// A class of characters, none of which is `/`.
struct Class<'a> {
    is_negated: bool,
    members: &'a [u8],
}

impl<'a> Class<'a> {
    /// Reads the class that opens at `open`. Returns it and its end.
    fn parse(glob: &'a [u8], open: usize) -> Result<(Self, usize), GlobError> {
        let is_negated = matches!(glob.get(open + 1), Some(b'!' | b'^'));
        let first = open + 1 + usize::from(is_negated);
        let mut close = first;
        loop {
            match glob.get(close).ok_or(GlobError::Class)? {
                // As the first member it closes nothing.
                b']' if close > first => break,
                b'\\' => close += 2,
                _ => close += 1,
            }
        }
        let members = &glob[first..close];
        let class = Self {
            is_negated,
            members,
        };
        Ok((class, close + 1))
    }

    fn has(&self, byte: u8) -> bool {
        let (mut members, mut is_member) = (self.members, false);
        while let Some((low, rest)) = split_member(members) {
            let range = rest.strip_prefix(b"-").and_then(split_member);
            let (high, after) = range.unwrap_or((low, rest));
            is_member |= (low..=high).contains(&byte);
            members = after;
        }
        is_member != self.is_negated && byte != b'/'
    }
}

/// Splits off the first member of a class.
fn split_member(members: &[u8]) -> Option<(u8, &[u8])> {
    match members {
        [b'\\', member, rest @ ..] | [member, rest @ ..] => Some((*member, rest)),
        [] => None,
    }
}

/// A set of places.
type Places = Vec<u64>;

fn insert(places: &mut [u64], place: usize) {
    places[place / WORD] |= 1 << (place % WORD);
}

/// An automaton that advances 64 of its places with each operation. The places of one alternative follow each other; the
/// last one accepts.
struct Automaton {
    /// For each byte, as many words as each of the others has: the places that it leads on to the next.
    leads: Places,
    /// The places that each byte but `/` keeps.
    in_segment: Places,
    /// The places that each byte keeps.
    across: Places,
    /// The places with which the next one is reached too.
    optional: Places,
    starts: Places,
    accepting: Places,
    len: usize,
}

impl Automaton {
    fn parse(glob: &[u8]) -> Result<Self, GlobError> {
        let alternatives = expand(glob)?;
        // Each byte makes one place at most, and each end one.
        let places = alternatives.iter().map(|it| it.len() + 1).sum::<usize>();
        let none = vec![0; places.div_ceil(WORD)];
        let mut automaton = Self {
            leads: vec![0; none.len() * BYTES],
            in_segment: none.clone(),
            across: none.clone(),
            optional: none.clone(),
            starts: none.clone(),
            accepting: none,
            len: 0,
        };
        for alternative in &alternatives {
            insert(&mut automaton.starts, automaton.len);
            automaton.add(alternative)?;
            insert(&mut automaton.accepting, automaton.len);
            automaton.len += 1;
        }
        Ok(automaton)
    }

    /// Adds a glob without braces.
    fn add(&mut self, glob: &[u8]) -> Result<(), GlobError> {
        let mut at = 0;
        while let Some(byte) = glob.get(at) {
            let end = end_item(glob, at)?;
            match byte {
                b'*' => {
                    at = self.add_stars(glob, at);
                    continue;
                }
                b'?' => self.add_place((0..=u8::MAX).filter(|it| *it != b'/')),
                b'[' => {
                    let (class, _) = Class::parse(glob, at)?;
                    self.add_place((0..=u8::MAX).filter(|it| class.has(*it)));
                }
                // What is escaped comes last.
                _ => self.add_place([glob[end - 1]]),
            }
            at = end;
        }
        Ok(())
    }

    /// Adds a place that these bytes lead on.
    fn add_place(&mut self, bytes: impl IntoIterator<Item = u8>) {
        let words = self.starts.len();
        for byte in bytes {
            insert(&mut self.leads[usize::from(byte) * words..], self.len);
        }
        self.len += 1;
    }

    /// Adds the stars at a place of a glob. Returns the end of what it has added.
    fn add_stars(&mut self, glob: &[u8], at: usize) -> usize {
        let stars = glob[at..].iter().take_while(|it| **it == b'*').count();
        let mut end = at + stars;
        let is_segment = stars == 2 && (at == 0 || glob[at - 1] == b'/');
        match glob.get(end) {
            None if is_segment => insert(&mut self.across, self.len),
            Some(b'/') if is_segment => {
                end += 1;
                // More of them mean the same.
                while glob[end..].starts_with(b"**/") {
                    end += 3;
                }
                insert(&mut self.across, self.len);
                insert(&mut self.optional, self.len);
                self.add_place(*b"/");
            }
            _ => insert(&mut self.in_segment, self.len),
        }
        end
    }

    fn accepts(&self, text: &[u8]) -> bool {
        let mut current = self.starts.clone();
        self.skip_optional(&mut current);
        let mut reached = vec![0; current.len()];
        for byte in text {
            let leads = &self.leads[usize::from(*byte) * current.len()..];
            let mut carry = 0;
            for (word, reached) in reached.iter_mut().enumerate() {
                let led = current[word] & leads[word];
                *reached = led << 1 | carry;
                carry = led >> (WORD - 1);
            }
            self.skip_optional(&mut reached);
            for (word, current) in current.iter_mut().enumerate() {
                let in_segment = if *byte == b'/' {
                    0
                } else {
                    self.in_segment[word]
                };
                *current = reached[word] | *current & (self.across[word] | in_segment);
            }
        }
        let mut words = current.iter().zip(&self.accepting);
        words.any(|(current, accepting)| current & accepting != 0)
    }

    /// Adds the places after the optional ones. No optional one follows another.
    fn skip_optional(&self, reached: &mut [u64]) {
        let mut carry = 0;
        for (reached, optional) in reached.iter_mut().zip(&self.optional) {
            let skipped = *reached & optional;
            *reached |= skipped << 1 | carry;
            carry = skipped >> (WORD - 1);
        }
    }
}

#[cfg(test)]
mod tests;
