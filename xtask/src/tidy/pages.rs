//! The rules for pages of the dashboard: no script in them, and small scripts beside them.

use super::files;

/// How many lines all scripts have together.
const LINES_MAX: usize = 350;

/// Where the pages are.
const TEMPLATES: &str = "host/web/templates";

/// What runs scripts from within a page, in lower case.
const INLINE: &[&str] = &["hx-on", "js:", "javascript:", "srcdoc", "style="];

#[test]
fn pages_have_no_inline_scripts() {
    let pages = files(".html");
    let templates = pages.iter().filter(|(path, _)| path.starts_with(TEMPLATES));
    let mut found = 0;
    for (path, text) in templates {
        found += 1;
        let (shown, text) = (path.display(), text.to_lowercase());
        for word in INLINE {
            assert!(!text.contains(word), "{shown} has {word}");
        }
        for tag in text.split('<').skip(1) {
            let tag = tag.split_once('>').map_or(tag, |(tag, _)| tag);
            let is_bare = tag.starts_with("script") && !tag.contains(" src=\"/assets/");
            assert!(!is_bare, "{shown} has a script: <{tag}>");
            let handles = tag
                .split_whitespace()
                .skip(1)
                .any(|it| it.starts_with("on") && it.contains('='));
            assert!(!handles, "{shown} handles an event: <{tag}>");
        }
    }
    assert!(found > 15, "the templates are read");
}

#[test]
fn scripts_are_few_and_small() {
    let sources = files(".js");
    let scripts = sources
        .iter()
        .filter(|(path, _)| path.starts_with("host/web"));
    let lines: usize = scripts.map(|(_, text)| text.lines().count()).sum();
    assert!((1..=LINES_MAX).contains(&lines), "{lines} lines of scripts");
}
