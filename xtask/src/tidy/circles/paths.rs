//! The paths in a Rust file that show which modules of the same crate it uses. Reads tokens, not grammar.

/// Removes comments, and everything after an inline module of tests.
pub(super) fn without_comments_and_tests(text: &str) -> String {
    let tests = text.find("#[cfg(test)]\nmod tests {");
    let text = &text[..tests.unwrap_or(text.len())];
    let code = text.lines().filter_map(|line| line.split("//").next());
    code.collect::<Vec<_>>().join("\n")
}

/// Returns the names of the modules that a file declares for tests alone.
pub(super) fn test_modules(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    for declaration in text.split("#[cfg(").skip(1) {
        let Some((condition, rest)) = declaration.split_once(")]") else {
            continue;
        };
        let is_test = condition == "test" || condition.starts_with("any(test");
        let item = rest.split(['{', ';']).next().unwrap_or_default();
        let mut words = item.split_whitespace().skip_while(|word| *word != "mod");
        if let (true, Some(_), Some(name)) = (is_test, words.next(), words.next()) {
            names.push(name);
        }
    }
    names
}

/// Returns the paths that begin with `crate`, `super` or `self`, each name of a group on its own.
pub(super) fn paths(text: &str) -> Vec<Vec<&str>> {
    let tokens = tokens(text);
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let is_base = matches!(*token, "crate" | "super" | "self");
        let begins = at == 0 || tokens[at - 1] != "::";
        if is_base && begins && tokens.get(at + 1) == Some(&"::") {
            read_tree(&tokens, at, &[], &mut found);
        }
    }
    found
}

/// Reads the path, or group of paths, that begins at a token. Returns where it ends.
fn read_tree<'a>(
    tokens: &[&'a str],
    mut at: usize,
    prefix: &[&'a str],
    found: &mut Vec<Vec<&'a str>>,
) -> usize {
    let mut path = prefix.to_vec();
    loop {
        match tokens.get(at) {
            Some(&"{") => return read_group(tokens, at + 1, &path, found),
            Some(name) if name.starts_with(is_word) => path.push(name),
            _ => break,
        }
        at += 1;
        if tokens.get(at) != Some(&"::") {
            break;
        }
        at += 1;
    }
    found.push(path);
    at
}

fn read_group<'a>(
    tokens: &[&'a str],
    mut at: usize,
    prefix: &[&'a str],
    found: &mut Vec<Vec<&'a str>>,
) -> usize {
    while at < tokens.len() && tokens[at] != "}" {
        if tokens[at] != "," {
            at = read_tree(tokens, at, prefix, found);
        }
        // A name may be followed by an alias.
        while at < tokens.len() && !matches!(tokens[at], "," | "}") {
            at += 1;
        }
        if tokens.get(at) == Some(&",") {
            at += 1;
        }
    }
    at + 1
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Splits text into words, `::`, and single characters.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let bytes = if is_word(first) {
            rest.find(|it| !is_word(it)).unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        tokens.push(&rest[..bytes]);
        rest = rest[bytes..].trim_start();
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_groups_are_read() {
        for (text, expected) in [
            ("use crate::a::B;", "crate::a::B"),
            ("use std::fmt; use a::crate_b;", ""),
            ("let x = super::super::f::<u8>();", "super::super::f"),
            (
                "use crate::{a::{B, C as D}, e};",
                "crate::a::B crate::a::C crate::e",
            ),
            (
                "use self::a::{self, *};\nself.b();",
                "self::a::self self::a",
            ),
            (
                "pub(in crate::a) fn f() -> crate::b::C {}",
                "crate::a crate::b::C",
            ),
            ("pub(crate) fn f(it: crate::A { b }) {}", "crate::A"),
        ] {
            let paths: Vec<String> = paths(text).iter().map(|path| path.join("::")).collect();
            assert_eq!(paths.join(" "), expected, "{text}");
        }
    }

    #[test]
    fn comments_and_tests_are_left_out() {
        let text =
            "a(); // crate::b\n/// [`super::c`]\nd();\n#[cfg(test)]\nmod tests {\n e();\n}\n";
        assert_eq!(without_comments_and_tests(text), "a(); \n\nd();");
    }

    #[test]
    fn modules_for_tests_are_known() {
        let text = "#[cfg(test)]\npub(crate) mod fake;\n#[cfg(unix)]\nmod a;\n#[cfg(test)]\nuse b;\n\
                    mod c;\n#[cfg(any(test, fuzzing))]\npub mod fuzz;\n";
        assert_eq!(test_modules(text), ["fake", "fuzz"]);
    }
}
