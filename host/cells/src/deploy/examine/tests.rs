//! Which handlers a component may offer. Tests with real processes cover a whole deploy.

use host_core::json::JsonText;

use super::*;

fn handler(name: &str, params_schema: Option<&str>) -> HandlerInfo {
    HandlerInfo {
        name: name.parse().unwrap(),
        description: None,
        params_schema: params_schema.map(|text| JsonText(text.to_owned())),
        result_schema: None,
    }
}

#[test]
fn only_sensible_offers_are_taken() {
    let many: Vec<_> = (0..=HANDLERS_MAX)
        .map(|n| handler(&format!("h{n}"), None))
        .collect();
    #[rustfmt::skip]
    let table = [
        (vec![handler("a", None), handler("b", Some("{\"type\":\"object\"}"))], None),
        (vec![], Some("no handlers")),
        (vec![handler("a", None), handler("a", None)], Some("the handler a twice")),
        (many, Some("more than 1000 handlers")),
    ];
    for (handlers, refusal) in table {
        let message = offer(&handlers).err().map(|error| error.to_string());
        match (message, refusal) {
            (None, None) => {}
            (Some(message), Some(refusal)) => assert!(message.contains(refusal), "{message}"),
            (message, refusal) => panic!("{message:?} instead of {refusal:?}"),
        }
    }
}
