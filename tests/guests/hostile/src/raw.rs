//! Handlers whose results do not come from a serializer.

use guest_sdk::Error;
use guest_sdk::export::Description;
use serde_json::Value;

const MIB: usize = 1 << 20;
const DEPTH: usize = 100_000;

/// A raw handler: its name, what it does, and what makes its result.
type Raw = (&'static str, &'static str, fn(&Value) -> String);

const HANDLERS: &[Raw] = &[
    ("bad_json_result", "Returns half of a document.", |_| {
        "{\"half\": [1, 2".to_owned()
    }),
    ("two_results", "Returns two documents.", |_| {
        "{} {}".to_owned()
    }),
    ("empty_result", "Returns no document at all.", |_| {
        String::new()
    }),
    (
        "invalid_utf8_result",
        "Returns text that is no text.",
        invalid_utf8,
    ),
    (
        "giant_result",
        "Returns 2 MiB, or as much as it is told to.",
        giant,
    ),
    ("deep_result", "Returns 100,000 nested lists.", |_| {
        format!("{}{}", "[".repeat(DEPTH), "]".repeat(DEPTH))
    }),
];

pub(crate) fn describe() -> impl Iterator<Item = Description> {
    HANDLERS.iter().map(|(name, description, _)| Description {
        name,
        description: Some(description),
        params_schema: None,
        result_schema: None,
    })
}

pub(crate) fn call(name: &str, params: &str) -> Option<Result<String, Error>> {
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
    // SAFETY: it is not: the bytes are no UTF-8. Nothing here reads them as text; the host does.
    unsafe { String::from_utf8_unchecked(bytes) }
}
