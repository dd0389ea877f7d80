//! Handlers that return raw text, most of it not valid JSON.

use guest_sdk::Error;
use guest_sdk::export::Description;
use serde_json::Value;

const MIB: usize = 1 << 20;
const DEPTH: usize = 100_000;

/// A raw handler: its name, its description, and the function that returns its result.
type Raw = (&'static str, &'static str, fn(&Value) -> String);

const HANDLERS: &[Raw] = &[
    (
        "bad_json_result",
        "Returns half of a JSON document.",
        |_| "{\"half\": [1, 2".to_owned(),
    ),
    ("two_results", "Returns two JSON documents.", |_| {
        "{} {}".to_owned()
    }),
    ("empty_result", "Returns an empty string.", |_| {
        String::new()
    }),
    (
        "invalid_utf8_result",
        "Returns a string that is not UTF-8.",
        invalid_utf8,
    ),
    (
        "giant_result",
        "Returns 2 MiB, or as much as its params say.",
        giant,
    ),
    ("deep_result", "Returns 100,000 nested lists.", |_| {
        format!("{}{}", "[".repeat(DEPTH), "]".repeat(DEPTH))
    }),
    (
        "text_result",
        "Returns the text in its params, as it is.",
        |params| params["text"].as_str().unwrap_or_default().to_owned(),
    ),
];

/// A handler that returns its params, digit by digit.
const VERBATIM: &str = "verbatim_result";

pub(crate) fn describe() -> impl Iterator<Item = Description> {
    let verbatim = (VERBATIM, "Returns its params as they came.");
    let others = HANDLERS.iter().map(|(name, about, _)| (*name, *about));
    others.chain([verbatim]).map(|(name, about)| Description {
        name,
        description: Some(about),
        params_schema: None,
        result_schema: None,
    })
}

pub(crate) fn call(name: &str, params: &str) -> Option<Result<String, Error>> {
    if name == VERBATIM {
        return Some(Ok(params.to_owned()));
    }
    let (_, _, make) = HANDLERS.iter().find(|(known, _, _)| *known == name)?;
    let params = serde_json::from_str(params).unwrap_or_default();
    Some(Ok(make(&params)))
}

fn giant(params: &Value) -> String {
    let mib = params["mib"]
        .as_u64()
        .and_then(|mib| usize::try_from(mib).ok());
    format!("\"{}\"", "x".repeat(mib.unwrap_or(2) * MIB))
}

fn invalid_utf8(_params: &Value) -> String {
    let bytes = std::hint::black_box(vec![b'"', 0xff, 0xfe, b'"']);
    // SAFETY: this is not sound, because the bytes are not UTF-8. No code in this guest reads them as
    // text; the host must reject them.
    unsafe { String::from_utf8_unchecked(bytes) }
}
