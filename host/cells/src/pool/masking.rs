//! Hides secrets that an attempt has seen in what it leaves: its log, progress, result and failure. It cannot catch a
//! value that the guest has changed, or that it writes in parts.

use host_core::cell::LogLine;
use host_core::failure::Failure;
use host_core::json::JsonText;
use host_core::outcome::Outcome;
use host_core::secret::Revealed;

pub(super) fn lines(revealed: &Revealed, lines: &mut [LogLine]) {
    for line in lines {
        revealed.mask(&mut line.message);
        for (name, value) in &mut line.fields {
            revealed.mask(name);
            json(revealed, value);
        }
    }
}

pub(super) fn outcome(revealed: &Revealed, outcome: &mut Outcome) {
    match outcome {
        Outcome::Completed { result } | Outcome::Cancelled { partial: result } => {
            if let Some(result) = result {
                json(revealed, result);
            }
        }
        Outcome::Retry { reason, .. } => {
            revealed.mask(reason);
        }
        Outcome::Failed(Failure {
            message,
            user_kind,
            code,
            details,
            stack,
            ..
        }) => {
            revealed.mask(message);
            for text in [user_kind, code, stack].into_iter().flatten() {
                revealed.mask(text);
            }
            if let Some(details) = details {
                json(revealed, details);
            }
        }
    }
}

/// Returns whether a document has a secret that the attempt has seen.
pub fn reveals(revealed: &Revealed, document: &JsonText) -> bool {
    let mut masked = document.clone();
    json(revealed, &mut masked);
    masked != *document
}

/// Hides secrets in the texts of a document, however they are escaped, and in its numbers, which then become texts.
fn json(revealed: &Revealed, document: &mut JsonText) {
    let (mut masked, mut rest) = (String::new(), document.as_str());
    let mut found = false;
    while let Some(start) = rest.find(|it: char| it == '"' || it == '-' || it.is_ascii_digit()) {
        masked.push_str(&rest[..start]);
        rest = &rest[start..];
        let (token, after) = rest.split_at(end(rest));
        let mut text = serde_json::from_str(token).unwrap_or_else(|_| token.to_owned());
        if revealed.mask(&mut text) {
            found = true;
            masked.push_str(&serde_json::Value::from(text).to_string());
        } else {
            masked.push_str(token);
        }
        rest = after;
    }
    if found {
        masked.push_str(rest);
        document.0 = masked;
    }
}

/// Returns where the text or the number ends that `rest` begins with.
fn end(rest: &str) -> usize {
    if !rest.starts_with('"') {
        let is_of_number = |it: char| it.is_ascii_digit() || "+-.eE".contains(it);
        return rest.find(|it| !is_of_number(it)).unwrap_or(rest.len());
    }
    let mut escaped = false;
    let quote = rest.bytes().skip(1).position(|byte| {
        let is_end = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        is_end
    });
    quote.map_or(rest.len(), |quote| quote + 2)
}

#[cfg(test)]
mod tests {
    use host_core::failure::FailureKind;
    use host_core::secret::Secret;

    use super::*;

    fn revealed(value: &str) -> Revealed {
        let mut revealed = Revealed::default();
        revealed.add(Secret {
            name: "k".to_owned(),
            value: value.to_owned(),
        });
        revealed
    }

    #[test]
    fn a_document_stays_one_and_shows_no_value() {
        for (value, document, masked) in [
            (
                "s3c",
                r#"{"a":["x s3c",1.50,{"s3c":null}]}"#,
                r#"{"a":["x {secret:k}",1.50,{"{secret:k}":null}]}"#,
            ),
            (
                "ä\"\\\n",
                r#"["\u00e4\"\\\n","\u00E4\u0022\u005c\u000a","ä\""]"#,
                r#"["{secret:k}","{secret:k}","ä\""]"#,
            ),
            ("s3c", r#""\\s3c\\""#, r#""\\{secret:k}\\""#),
            ("s3c", "\"none\"", "\"none\""),
            (
                "1234",
                "[1234, -12345, 12.34, true]",
                r#"["{secret:k}", "-{secret:k}5", 12.34, true]"#,
            ),
        ] {
            let mut text = JsonText(document.to_owned());
            json(&revealed(value), &mut text);
            assert_eq!(text.as_str(), masked, "{document}");
            assert!(
                serde_json::from_str::<serde_json::Value>(masked).is_ok(),
                "{masked}"
            );
        }
    }

    #[test]
    fn all_texts_of_an_outcome_are_masked() {
        let text = || Some("is s3cret".to_owned());
        let failure = Failure {
            user_kind: text(),
            code: text(),
            stack: text(),
            details: Some(JsonText("[\"s3cret\"]".to_owned())),
            ..Failure::new(FailureKind::UserError, "s3cret s3cret")
        };
        let result = || Some(JsonText("\"s3cret\"".to_owned()));
        for mut ended in [
            Outcome::Failed(failure),
            Outcome::Retry {
                reason: "s3cret".to_owned(),
                after_ms: None,
            },
            Outcome::Completed { result: result() },
            Outcome::Cancelled { partial: result() },
        ] {
            outcome(&revealed("s3cret"), &mut ended);
            let shown = serde_json::to_string(&ended).unwrap();
            assert!(
                shown.contains("{secret:k}") && !shown.contains("s3cret"),
                "{shown}"
            );
        }
    }
}
