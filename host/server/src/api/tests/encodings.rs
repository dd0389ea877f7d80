//! Bodies with a byte order mark, in another encoding, or packed; ids without dashes.

use axum::http::StatusCode;
use serde_json::json;

use super::fixture::Host;

const JOBS: &str = "/api/v1/jobs";

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

#[tokio::test]
async fn a_body_may_begin_with_a_mark_and_another_encoding_is_named() {
    let host = Host::start().await;
    let job = r#"{"handler":"noop","params":{"a":1}}"#;
    let id = host.enqueue(format!("\u{feff}{job}")).await;
    let shown = host.get(&format!("{JOBS}/{id}")).await;
    assert_eq!(shown.body["params"], json!({"a": 1}));
    let array = host.post(JOBS, format!("\u{feff}[{job}]")).await;
    array.is(StatusCode::CREATED);
    let cancel = format!("{JOBS}/{id}/cancel");
    let reason = "\u{feff}{\"reason\":\"no\"}";
    host.post(&cancel, reason).await.is(StatusCode::OK);
    let gzip = b"\x1f\x8b\x08\x00\x00".to_vec();
    for path in [JOBS, &cancel] {
        for (body, named) in [
            (utf16(job), "it is UTF-16; convert it to UTF-8"),
            (utf16(&format!("\u{feff}{job}")), "it is UTF-16"),
            (gzip.clone(), "it is packed with gzip; unpack it"),
        ] {
            let answer = host.send("POST", path, "application/json", body).await;
            let detail = answer.fails(400, "invalid_json");
            assert!(detail.contains(named), "{path}: {detail}");
        }
    }
    let coded = [("content-encoding", "gzip")];
    let answer = host.send_with("POST", JOBS, &coded, gzip).await;
    let detail = answer.fails(415, "unsupported_media_type");
    assert!(detail.contains("gzip"), "{detail}");
}

#[tokio::test]
async fn lines_may_begin_with_a_mark_and_another_encoding_is_named() {
    let host = Host::start().await;
    let line = "{\"handler\":\"noop\"}\n";
    let send = async |body: Vec<u8>| {
        let answer = host.send("POST", JOBS, "application/x-ndjson", body).await;
        answer.text
    };
    let accepted = send(format!("\u{feff}{line}{line}").into_bytes()).await;
    assert_eq!(
        accepted.matches("\"existing\":false").count(),
        2,
        "{accepted}"
    );
    let refused = send(utf16(line)).await;
    assert!(
        refused.lines().next().unwrap().contains("UTF-16"),
        "{refused}"
    );
}

#[tokio::test]
async fn an_id_without_dashes_is_an_id() {
    let host = Host::start().await;
    let id = host.enqueue(r#"{"handler":"noop"}"#).await;
    let bare = id.replace('-', "");
    for text in [&bare, &bare.to_ascii_uppercase(), &bare[..20].to_owned()] {
        let shown = host.get(&format!("{JOBS}/{text}")).await;
        assert_eq!(shown.is(StatusCode::OK).body["id"], *id, "{text}");
        let listed = host.get(&format!("{JOBS}?id={text}")).await;
        assert_eq!(
            listed.is(StatusCode::OK).body["items"][0]["id"],
            *id,
            "{text}"
        );
    }
    let listed = host.get(&format!("{JOBS}?q={bare}")).await;
    assert_eq!(listed.body["items"][0]["id"], *id);
    let body = json!({"handler": "noop", "depends_on": [bare], "inputs": {"a": bare}});
    let after = host.enqueue(body.to_string()).await;
    let shown = host.get(&format!("{JOBS}/{after}")).await;
    assert_eq!(shown.body["depends_on"][0], *id, "{shown:?}");
    host.get(&format!("{JOBS}/{bare}/wait?timeout_seconds=0"))
        .await
        .is(StatusCode::OK);
    for wrong in [format!("{bare}0"), format!("{}-{}", &bare[..4], &bare[4..])] {
        let answer = host.get(&format!("{JOBS}/{wrong}")).await;
        answer.fails(404, "job_not_found");
    }
}
