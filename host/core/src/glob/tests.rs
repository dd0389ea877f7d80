//! What matches, what is refused, and that no glob makes a match expensive.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

#[test]
fn a_glob_matches_what_it_says() {
    for (glob, texts, others) in [
        ("/v1", &["/v1"][..], &["/v1/", "/v", "/v12", ""][..]),
        ("/v1/*", &["/v1/", "/v1/a"], &["/v1", "/v1/a/b"]),
        ("/v1/**", &["/v1/", "/v1/a", "/v1/a/b/"], &["/v1", "/v2/a"]),
        ("/**/a", &["/a", "/b/a", "/b//c/a"], &["/ba", "/a/b", "a"]),
        ("/a/**/**/b", &["/a/b", "/a/c/d/b"], &["/ab", "/a/cb"]),
        ("/**/**", &["/", "/a/b"], &["", "a"]),
        ("**", &["", "a/b"], &[]),
        ("/a**/b", &["/a/b", "/acd/b"], &["/a/c/b"]),
        ("/**a", &["/a", "/ba"], &["/b/a"]),
        ("/***", &["/a"], &["/a/b"]),
        (
            "*.example.com",
            &["a.example.com", "a.b.example.com"],
            &["a/b.example.com"],
        ),
        ("/?", &["/a"], &["/", "//", "/ab"]),
        ("/[a-cx]", &["/b", "/x"], &["/d", "/-", "//"]),
        ("/[!a-c]", &["/d", "/]"], &["/b", "//"]),
        ("/[^]a]", &["/b"], &["/]", "/a"]),
        ("/[]a-]", &["/]", "/a", "/-"], &["/b"]),
        ("/[\\]a]", &["/]", "/a"], &["/\\"]),
        ("/\\*", &["/*"], &["/a"]),
        ("/{a,b}/c", &["/a/c", "/b/c"], &["/c", "/{a,b}/c", "/ab/c"]),
        ("/{a,{b,c}d,}", &["/a", "/bd", "/cd", "/"], &["/b", "/d"]),
        ("/{a,*}/**", &["/a/", "/b/c/d"], &["/a"]),
        ("/a{/**,}", &["/a", "/a/b/c"], &["/ab"]),
        ("/[{,}]\\{", &["/{{", "/,{", "/}{"], &["/a{"]),
        ("/}a,", &["/}a,"], &["/"]),
    ] {
        check(glob).unwrap_or_else(|error| panic!("{glob}: {error}"));
        for text in texts {
            assert!(matches(glob, text), "{glob} {text}");
        }
        for text in others {
            assert!(!matches(glob, text), "{glob} {text}");
        }
    }
}

#[test]
fn what_is_no_glob_is_refused_and_matches_nothing() {
    let long = format!("/{{a,b}}{}", "c".repeat(512));
    for (glob, error) in [
        ("/{a", GlobError::Brace),
        ("/{a,{b}", GlobError::Brace),
        ("/[a", GlobError::Class),
        ("/[]", GlobError::Class),
        ("/{[a}", GlobError::Class),
        ("/[a\\]", GlobError::Class),
        ("/a\\", GlobError::Escape),
        (&"{a}".repeat(11), GlobError::Braces),
        (&"{a,b}".repeat(7), GlobError::Alternatives),
        (&long, GlobError::Alternatives),
    ] {
        assert_eq!(check(glob), Err(error), "{glob}");
        for text in ["", "/", "/a", glob] {
            assert!(!matches(glob, text), "{glob} {text}");
        }
    }
    let most = "/{a,b}".repeat(6);
    assert_eq!(check(&most), Ok(()));
}

/// Returns how many words a match advances with each byte of a text.
fn words(glob: &str) -> usize {
    Automaton::parse(glob.as_bytes()).map_or(0, |automaton| automaton.starts.len())
}

/// Returns the most words that a glob of a length may have: its own bytes and one end, or those of all alternatives.
fn words_max(bytes: usize) -> usize {
    (bytes + 1)
        .max(ALTERNATIVES_BYTES_MAX + ALTERNATIVES_MAX)
        .div_ceil(WORD)
}

#[test]
fn hostile_globs_cost_what_their_length_says() {
    let braces = format!("/v1/{}z", "{a*,a*,a*,a*,a*,a*,a*,a*}".repeat(10));
    assert_eq!(check(&braces), Err(GlobError::Alternatives));
    for glob in [
        braces,
        format!("/{}z", "{a*,a*}".repeat(6)),
        format!("/{}z", "a*".repeat(500)),
        format!("{}z", "/**/*a".repeat(150)),
        format!("/{}", "{".repeat(1_000)),
        format!("/{}{}", "{a,".repeat(300), "}".repeat(300)),
        format!("/{}", "[".repeat(1_000)),
    ] {
        assert!(words(&glob) <= words_max(glob.len()), "{glob}");
        for text in ["/v1/", "/a/a", "/"] {
            let text = text.to_owned() + &"a".repeat(8_000);
            assert!(!matches(&glob, &text), "{glob}");
        }
    }
}

/// A part of a glob.
#[derive(Clone, Debug)]
enum Part {
    Item(&'static str),
    Brace(Vec<Vec<Part>>),
}

fn part() -> impl Strategy<Value = Part> {
    let item = prop::sample::select(vec![
        "a", "b", "/", "/", "*", "**", "**/", "/**", "?", "[ab]", "[!a]", "\\*",
    ]);
    item.prop_map(Part::Item).prop_recursive(2, 12, 3, |part| {
        vec(vec(part, 0..3), 1..3).prop_map(Part::Brace)
    })
}

fn write(parts: &[Part]) -> String {
    let parts = parts.iter().map(|part| match part {
        Part::Item(item) => (*item).to_owned(),
        Part::Brace(options) => {
            let options: Vec<String> = options.iter().map(|it| write(it)).collect();
            format!("{{{}}}", options.join(","))
        }
    });
    parts.collect()
}

/// Returns all texts without braces.
fn alternatives(parts: &[Part]) -> Vec<String> {
    parts.iter().fold(vec![String::new()], |starts, part| {
        let ends = match part {
            Part::Item(item) => vec![(*item).to_owned()],
            Part::Brace(options) => options.iter().flat_map(|it| alternatives(it)).collect(),
        };
        let start = |start: &String| -> Vec<String> {
            ends.iter().map(|end| start.clone() + end).collect()
        };
        starts.iter().flat_map(start).collect()
    })
}

/// Matches a glob without braces from a place on, without cleverness.
fn is_match(glob: &[u8], at: usize, text: &[u8]) -> bool {
    let Some(byte) = glob.get(at) else {
        return text.is_empty();
    };
    let stars = glob[at..].iter().take_while(|it| **it == b'*').count();
    let end = at + stars;
    if stars == 2 && (at == 0 || glob[at - 1] == b'/') {
        if end == glob.len() {
            return true;
        }
        if glob[end] == b'/' {
            let is_segment = |from: usize| from == 0 || text[from - 1] == b'/';
            let mut ends = (0..=text.len()).filter(|from| is_segment(*from));
            return ends.any(|from| is_match(glob, end + 1, &text[from..]));
        }
    }
    let mut segment = text.iter().take_while(|it| **it != b'/').count();
    if stars > 0 {
        return (0..=segment).any(|from| is_match(glob, end, &text[from..]));
    }
    segment = segment.min(1);
    let first = text.first().copied();
    match byte {
        b'?' => segment == 1 && is_match(glob, at + 1, &text[1..]),
        b'[' if glob[at + 1] == b'!' => {
            segment == 1 && first != Some(b'a') && is_match(glob, at + 4, &text[1..])
        }
        b'[' => matches!(first, Some(b'a' | b'b')) && is_match(glob, at + 4, &text[1..]),
        b'\\' => first == Some(b'*') && is_match(glob, at + 2, &text[1..]),
        other => first == Some(*other) && is_match(glob, at + 1, &text[1..]),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn globs_match_as_the_naive_way_does(parts in vec(part(), 0..8), text in "[ab/*]{0,8}") {
        let glob = write(&parts);
        prop_assume!(check(&glob).is_ok());
        let mut expanded = alternatives(&parts).into_iter();
        let expected = expanded.any(|it| is_match(it.as_bytes(), 0, text.as_bytes()));
        prop_assert_eq!(matches(&glob, &text), expected, "{}", glob);
    }

    #[test]
    fn no_glob_is_larger_than_its_length_says(glob in r"[ab/*?{},\[\]\\!-]{0,80}", times in 1_usize..40) {
        let glob = glob.repeat(times);
        prop_assert!(words(&glob) <= words_max(glob.len()));
    }
}
