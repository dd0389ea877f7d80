//! The safe form of text that could control a terminal.

use super::{block, line};

#[test]
fn ordinary_text_is_not_copied() {
    for text in ["", "plain", "größer → 世界 🦀"] {
        assert!(matches!(line(text), std::borrow::Cow::Borrowed(same) if same == text));
    }
}

#[test]
fn colors_titles_and_links_are_removed() {
    assert_eq!(line("\u{1b}[31mred\u{1b}[0m"), "red");
    assert_eq!(line("\u{1b}[2J\u{1b}[1;1Hfake"), "fake");
    assert_eq!(line("\u{1b}]0;title\u{7}text"), "text");
    assert_eq!(
        line("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\"),
        "link"
    );
}

#[test]
fn what_is_left_is_shown_and_does_nothing() {
    assert_eq!(line("a\u{7}b"), "a\\u{7}b");
    assert_eq!(line("cut\u{1b}[31"), "cut\\u{1b}[31");
    assert_eq!(line("\u{1b}]0;never ends"), "\\u{1b}]0;never ends");
    assert_eq!(line("\u{1b}[1\u{e9}"), "\\u{1b}[1é");
    assert_eq!(line("\u{9b}31m"), "\\u{9b}31m");
    assert_eq!(line("exe.\u{202e}gpj"), "exe.\\u{202e}gpj");
    assert_eq!(line("two\nlines\r\tx"), "two\\nlines\\r\\tx");
}

#[test]
fn a_block_keeps_its_lines() {
    assert_eq!(block("two\n\tlines\r\u{8}"), "two\n\tlines\\r\\u{8}");
}

/// Returns whether a character controls a terminal or the order of text, as Unicode has it.
fn controls(c: char) -> bool {
    c.is_control() || matches!(c, '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[test]
fn nothing_that_acts_survives_any_text() {
    for c in (0..=0x10_ffff).filter_map(char::from_u32) {
        for text in [
            format!("a{c}b"),
            format!("\u{1b}[{c}"),
            format!("\u{1b}]{c}\u{7}"),
        ] {
            let (one, many) = (line(&text), block(&text));
            assert!(!one.chars().any(controls), "{text:?} became {one:?}");
            let mut rest = many.chars().filter(|c| !matches!(c, '\n' | '\t'));
            assert!(!rest.any(controls), "{text:?} became {many:?}");
        }
    }
}
