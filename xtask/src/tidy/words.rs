//! Phrases that read like a translation, and how many of each are left. A row only ever gets smaller: write what a native
//! engineer would say.

use super::files;

/// Each phrase, with how many places may still have it.
const ALLOWED: [(&str, usize); 9] = [
    ("at once", 16),
    ("goes on", 3),
    ("go on", 3),
    ("nobody", 3),
    ("somebody", 2),
    ("meanwhile", 0),
    ("stands for", 0),
    ("is asked", 1),
    ("are asked", 0),
];

/// The file that names the phrases.
const SELF: &str = "xtask/src/tidy/words.rs";

#[test]
fn phrases_of_a_translation_become_fewer() {
    let mut counts = ALLOWED.map(|_| 0);
    for ending in [".rs", ".md", ".py", ".js", ".ts", ".html"] {
        for (path, text) in files(ending) {
            if path.as_os_str() == SELF {
                continue;
            }
            let lower = text.to_lowercase();
            let words: Vec<&str> = lower
                .split(|c: char| !c.is_alphanumeric() && c != '_' && c != '-')
                .filter(|word| !word.is_empty())
                .collect();
            for ((phrase, _), count) in ALLOWED.iter().zip(&mut counts) {
                let phrase: Vec<&str> = phrase.split(' ').collect();
                *count += words
                    .windows(phrase.len())
                    .filter(|it| *it == phrase)
                    .count();
            }
        }
    }
    for ((phrase, allowed), count) in ALLOWED.iter().zip(counts) {
        assert!(
            count <= *allowed,
            "\"{phrase}\" is in {count} places, more than {allowed}: say it in other words"
        );
        assert!(
            count + 10 >= *allowed,
            "\"{phrase}\" is in {count} places, fewer than {allowed}: lower its row"
        );
    }
}
