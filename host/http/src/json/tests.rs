//! Which documents strict reading accepts, and how it reports errors in the others.

use host_core::json::Pairs;
use serde::Deserialize;

use super::{AtMost, JsonError, check, read, with_nearest};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Form {
    name: String,
    number: u8,
    pairs: Option<Pairs>,
}

#[test]
fn documents_that_are_kept_as_text() {
    let deep = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
    let many_keys: Vec<String> = (0..1000).map(|n| format!("\"{n}\":{n}")).collect();
    let good = [
        "null".to_owned(),
        r#"{"a":1,"b":[true,"ü\u0000",{"a":1}],"c":-0}"#.to_owned(),
        "18446744073709551616".to_owned(),
        "\u{feff}{}".to_owned(),
        "1e300".to_owned(),
        deep(127),
        format!("{{{}}}", many_keys.join(",")),
    ];
    for text in good {
        assert_eq!(check(text.as_bytes()), Ok(()), "{text}");
    }
    let bad = [
        "",
        "{",
        "{} {}",
        "\u{feff}\u{feff}{}",
        "NaN",
        "1e400",
        "01",
        r#"{"a":1,"a":2}"#,
        r#"[{"b":{"a":1,"\u0061":2}}]"#,
        r#""\ud800""#,
        "{a:1}",
        "[1,]",
        &deep(128),
        &deep(100_000),
    ];
    for text in bad {
        let error = check(text.as_bytes()).unwrap_err();
        assert!(matches!(error, JsonError::Syntax(_)), "{text}: {error}");
    }
}

#[test]
fn a_value_that_is_no_variant_is_data() {
    #[derive(Debug, Deserialize)]
    enum Word {
        A,
    }
    #[derive(Debug, Deserialize)]
    struct Words {
        _word: Word,
    }
    assert!(read::<Words>(br#"{"_word":"A"}"#).is_ok());
    for text in [r#"{"_word":5}"#, r#"{"_word":null}"#, r#"{"_word":"B"}"#] {
        let error = read::<Words>(text.as_bytes()).unwrap_err();
        let JsonError::Data(message) = &error else {
            panic!("{text}: {error:?}");
        };
        assert!(
            message.starts_with("_word: ") && !message.contains(" at line "),
            "{message}"
        );
    }
    let broken = read::<Words>(br#"{"_word":}"#).unwrap_err();
    assert!(matches!(broken, JsonError::Syntax(_)), "{broken:?}");
}

#[test]
fn wrong_fields_are_named() {
    let data: fn(String) -> JsonError = JsonError::Data;
    let syntax: fn(String) -> JsonError = JsonError::Syntax;
    for (text, kind, message) in [
        (
            r#"{"nmae":1}"#,
            data,
            "unknown field `nmae`; did you mean `name`?",
        ),
        (
            r#"{"number":300}"#,
            data,
            "number: expected a whole number from 0 to 255, got 300",
        ),
        (
            r#"{"pairs":{"a":1}}"#,
            data,
            "pairs.a: expected a string, got 1",
        ),
        (
            r#"{"name":"a","name":"b"}"#,
            syntax,
            "body: duplicate key `name` at line 1, column 18",
        ),
        (
            r#"{"pairs":{"a":"1","a":"2"}}"#,
            syntax,
            "body: duplicate key `a` at line 1, column 21",
        ),
        (
            "{",
            syntax,
            "body: not valid JSON: ends too early at line 1, column 1",
        ),
        ("3", data, "expected an object, got 3"),
    ] {
        let error = read::<Form>(text.as_bytes()).unwrap_err();
        assert_eq!(error, kind(message.to_owned()), "{text}");
    }
}

#[test]
fn pairs_keep_their_order() {
    let form: Form = read(br#"{"pairs":{"z":"1","a":"2"}}"#).unwrap();
    let pairs = form.pairs.unwrap_or_default().0;
    assert_eq!(
        pairs
            .iter()
            .map(|(key, _)| key.as_str())
            .collect::<String>(),
        "za"
    );
    assert_eq!((form.name.as_str(), form.number), ("", 0));
}

#[test]
fn a_bounded_array_stops_at_its_bound() {
    for (text, elements, more) in [
        ("[]", vec![], false),
        ("[1,2]", vec![1, 2], false),
        ("[1,2,3,4]", vec![1, 2], true),
    ] {
        let found: AtMost<2, u8> = read(text.as_bytes()).unwrap();
        assert_eq!((found.elements, found.more), (elements, more), "{text}");
    }
}

#[test]
fn messages_without_a_known_field() {
    assert_eq!(
        with_nearest("unknown field `x`, there are no fields"),
        "unknown field `x`; no fields are allowed here"
    );
    assert_eq!(
        with_nearest("unknown field `x`, expected `name` or `number`"),
        "unknown field `x`; known are `name`, `number`"
    );
    assert_eq!(with_nearest("something else"), "something else");
}
