//! No text of others becomes part of a page, on any page of any template: neither markup nor script.

use host_api::filter_text::{self, Filter};
use host_api::multipart::Multipart;
use host_api::path::segment;
use host_core::job::State;
use proptest::prelude::*;

use super::*;

/// Returns the tags of a page, each with the names of its attributes.
fn tags(page: &str) -> Vec<String> {
    let (mut tags, mut rest) = (Vec::new(), page);
    while let Some((_, after)) = rest.split_once('<') {
        let (mut tag, mut quoted) = (String::new(), false);
        let mut end = after.len();
        for (at, c) in after.char_indices() {
            match c {
                '"' => quoted = !quoted,
                '>' if !quoted => {
                    end = at + 1;
                    break;
                }
                c if !quoted => tag.push(c),
                _ => {}
            }
        }
        tags.push(tag);
        rest = &after[end..];
    }
    tags
}

fn run<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(work)
}

/// Presses buttons of pages about what has `text` as its name, and types it wherever something is typed. Returns the
/// pages that come, each with what was pressed.
async fn pressed(pages: &Router, text: &str) -> Vec<(String, String)> {
    let of = |noun: &str| format!("/{noun}/{}", segment(text));
    let words = filter_text::write(&Filter {
        state: Some(State::Discarded),
        words: vec![format!("x{text}")],
        ..Filter::default()
    });
    let to = format!(
        "/jobs?{}",
        serde_urlencoded::to_string([("q", text)]).unwrap()
    );
    let forms: &[(String, &[(&str, &str)])] = &[
        (of("jobs"), &[("action", "purge")]),
        (of("nodes"), &[("action", "drain")]),
        (of("executors"), &[("action", "restart"), ("value", text)]),
        (of("components"), &[("action", "rollback"), ("value", "1")]),
        (
            "/components/guarded".to_owned(),
            &[("action", "rollback"), ("value", "1"), ("sure", "true")],
        ),
        (of("schedules"), &[("action", "remove")]),
        (of("limits"), &[("action", "remove")]),
        (of("batches"), &[("action", "cancel")]),
        ("/tokens".to_owned(), &[("action", "revoke"), ("id", text)]),
        (
            "/tokens".to_owned(),
            &[
                ("action", "create"),
                ("name", text),
                ("role", text),
                ("queues", text),
                ("days", "7"),
            ],
        ),
        ("/jobs".to_owned(), &[("handler", text), ("params", "{")]),
        (
            "/jobs/change".to_owned(),
            &[("action", "retry"), ("q", &words), ("list", text)],
        ),
        (
            "/jobs/change".to_owned(),
            &[
                ("action", "retry"),
                ("q", &words),
                ("list", text),
                ("sure", "true"),
                ("typed", "retry 1234"),
            ],
        ),
        (
            "/jobs/change".to_owned(),
            &[
                ("action", "cancel"),
                ("list", text),
                ("selection", "true"),
                ("id", text),
            ],
        ),
        (
            "/jobs/change".to_owned(),
            &[
                ("action", "cancel"),
                ("q", "queue:endless"),
                ("sure", "true"),
                ("typed", "cancel 6170"),
            ],
        ),
        ("/login".to_owned(), &[("token", text), ("to", &to)]),
    ];
    let mut shown = Vec::new();
    for (path, form) in forms {
        let (_, page) = post(pages, path, &serde_urlencoded::to_string(form).unwrap()).await;
        shown.push((format!("{path} {form:?}"), page));
    }
    for component in ["guarded", "free"] {
        let parts = [
            ("name", text.as_bytes()),
            ("component", component.as_bytes()),
        ];
        let upload = Multipart::new(&parts);
        let request = Request::post("/components")
            .header(HOST, "localhost")
            .header(CONTENT_TYPE, upload.kind())
            .body(Body::from(upload.into_body()))
            .unwrap();
        shown.push((format!("deploy {component}"), ask(pages, request).await.1));
    }
    shown
}

/// Returns all pages, each with how it came.
async fn fetch_all(pages: &Router, text: &str) -> Vec<(String, String)> {
    let mut shown = Vec::new();
    for path in PAGES {
        shown.push(((*path).to_owned(), get(pages, path).await.1));
    }
    shown.extend(pressed(pages, text).await);
    shown
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_of_others_becomes_markup(text in "(\\PC|[<>\"'&=/\u{202e}\u{0}\n]){1,40}") {
        // With `#`, a handler is that of a runner, which has another page; and one field is named `who` already.
        prop_assume!(!text.contains('#') && text != "who");
        let plain = run(fetch_all(&pages("plain"), "plain"));
        let hostile = run(fetch_all(&pages(&text), &text));
        for ((came, page), (_, plain)) in hostile.into_iter().zip(plain) {
            // Values of attributes may have the text; names of tags and attributes never.
            prop_assert_eq!(tags(&page), tags(&plain), "{}: {}", came, page);
        }
    }
}

#[test]
fn scripts_and_huge_lines_are_only_text() {
    for text in [
        "<script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "' onmouseover='alert(1)",
        "</textarea></pre><h1>",
        "javascript:alert(1)",
        &"x".repeat(2 << 10),
    ] {
        let (plain, hostile) = (pages("plain"), pages(text));
        let (_, page) = run(get(&hostile, "/jobs/01990f3c"));
        let shown = &text[..text.len().min(40)];
        assert_eq!(
            tags(&page).len(),
            tags(&run(get(&plain, "/jobs/01990f3c")).1).len(),
            "{shown}"
        );
        assert!(
            !page.contains("<script>") && !page.contains("href=\"javascript:"),
            "{shown}"
        );
    }
}

/// The longest text of each template stands on some page: so no template escapes the test above.
#[test]
fn every_template_is_among_the_pages() {
    let shown = run(fetch_all(&pages("plain"), "plain"));
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/templates");
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let template = std::fs::read_to_string(&path).unwrap();
        let texts = template.split(['{', '}']).filter(|it| !it.starts_with('%'));
        let longest = texts.max_by_key(|text| text.len()).unwrap();
        assert!(
            shown.iter().any(|(_, page)| page.contains(longest)),
            "{} is on no page: {longest}",
            path.display()
        );
    }
}
