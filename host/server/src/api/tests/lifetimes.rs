//! How long tokens last, and what becomes of those that are over.

use std::time::Duration;

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, StatusCode};
use host_core::access::{Role, Verbs};
use host_core::time::Time;
use host_engine::audit::Entry;
use host_engine::table::Range;
use host_engine::token::{KeptToken, PutToken, Rights, Token, TokenText, token_id};
use host_http::gate::Gate as _;
use host_http::peer::Peer;
use host_runtime::clock::Clock;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::access::Guarded;

const JOBS: (&str, &str) = ("GET", "/api/v1/jobs");
const OWN: (&str, &str) = ("GET", "/api/v1/tokens/self");
const DAY_MS: i64 = 24 * 3_600_000;

/// How long a token lasts, by what its view says.
fn lasts_ms(view: &Value) -> i64 {
    let time = |field: &str| Time::parse_rfc3339(view[field].as_str().unwrap()).unwrap();
    time("expires_at").0 - time("created_at").0
}

/// Keeps a token that ends at a time, and returns its text.
async fn ends_at(guarded: &Guarded, random: u8, end: Time) -> String {
    let id = token_id(&[random; 32]);
    let text = TokenText::new(&id, &[random; 32]);
    let token = Box::new(Token {
        id,
        hash: text.hash(),
        name: "over".to_owned(),
        created_by: "uid:0".to_owned(),
        created_at: Time(0),
        rights: Rights {
            verbs: Role::Viewer.verbs(),
            expires_at: Some(end),
            ..Rights::default()
        },
        previous: None,
        sessions: Vec::new(),
    });
    assert_ne!(token.rights.verbs, Verbs::NONE);
    let is_new = true;
    let put = PutToken { token, is_new };
    guarded.host.dispatch.submit(put).await.unwrap();
    guarded.auth.reload().await.unwrap();
    text.expose().to_owned()
}

#[tokio::test]
async fn a_token_lasts_90_days_and_the_first_one_a_day() {
    let guarded = Guarded::start().await;
    let own = guarded.send(&guarded.admin, OWN, None).await.body;
    assert_eq!(lasts_ms(&own["token"]), DAY_MS);
    let make = async |body| {
        let asked = ("POST", "/api/v1/tokens");
        let made = guarded.send(&guarded.admin, asked, Some(&body)).await;
        lasts_ms(&made.is(StatusCode::CREATED).body)
    };
    // The first token makes tokens that last longer than itself.
    let usual = make(json!({"name": "u", "role": "viewer"})).await;
    assert_eq!(usual, 90 * DAY_MS);
    let year = json!({"name": "y", "role": "viewer", "expires_seconds": 365 * 86_400});
    assert_eq!(make(year).await, 365 * DAY_MS);
}

#[tokio::test]
async fn a_token_has_a_name_and_a_time() {
    let guarded = Guarded::start().await;
    for (key, value, detail) in [
        (
            "expires_seconds",
            json!(0),
            "expires_seconds: must be at least 1",
        ),
        ("name", json!(""), "name: must have 1–128 bytes"),
        (
            "name",
            json!("\u{1b}[31m"),
            "name: must have no control characters",
        ),
    ] {
        let mut body = json!({"name": "n", "role": "viewer"});
        body[key] = value;
        let asked = ("POST", "/api/v1/tokens");
        let answer = guarded.send(&guarded.admin, asked, Some(&body)).await;
        assert_eq!(answer.fails(422, "invalid_request"), detail);
    }
}

#[tokio::test]
async fn a_token_that_is_over_lets_nobody_in_and_its_stream_ends() {
    let guarded = Guarded::start().await;
    let stopping = CancellationToken::new();
    let running = guarded.auth.clone().run(stopping.clone());
    let asking = async {
        // On a slow machine, a token may be over before its stream is open.
        for seconds in [1, 4, 16] {
            let body = json!({"name": "w", "role": "viewer", "expires_seconds": seconds});
            let token = guarded.make(&body).await;
            let streaming = guarded.send(&token, ("GET", "/api/v1/events"), None);
            let limit = Duration::from_mins(1);
            let streamed = tokio::time::timeout(limit, streaming)
                .await
                .expect("a stream ends with its token");
            let after = guarded.send(&token, JOBS, None).await;
            after.fails(401, "unauthenticated");
            if streamed.status == 200 {
                stopping.cancel();
                return;
            }
        }
        panic!("each token was over before its stream was open");
    };
    tokio::join!(running, asking);
}

/// What ends tokens, and sees what other nodes have revoked, does not wait until denials are stored.
#[tokio::test]
async fn no_denial_delays_the_end_of_a_token() {
    let guarded = Guarded::start().await;
    let body = json!({"name": "r", "role": "viewer", "expires_seconds": 1});
    let token = guarded.make(&body).await;
    guarded
        .send("", JOBS, None)
        .await
        .fails(401, "unauthenticated");
    let stopping = CancellationToken::new();
    let asking = async {
        let streaming = guarded.send(&token, ("GET", "/api/v1/events"), None);
        let streamed = tokio::time::timeout(Duration::from_mins(1), streaming).await;
        streamed.expect("a stream ends with its token");
        stopping.cancel();
    };
    // It alone ends the stream: denials are not stored.
    tokio::join!(guarded.auth.follow(&stopping), asking);
    guarded
        .send(&token, JOBS, None)
        .await
        .fails(401, "unauthenticated");
    let denied = async || {
        let read = guarded
            .host
            .dispatch
            .read(|reader| reader.list::<Entry>(Range::all().first(100)));
        let entries = read.await.unwrap();
        let denied = entries
            .iter()
            .filter(|it| it.record.contains("unauthenticated"));
        denied.count()
    };
    assert_eq!(denied().await, 0);
    guarded.auth.store_rest().await;
    assert_eq!(denied().await, 1 + 1, "one, and one that repeats it");
}

#[tokio::test]
async fn tokens_that_ended_long_ago_are_removed() {
    let guarded = Guarded::start().await;
    let now = Clock::start().now();
    let long_ago = ends_at(&guarded, 1, Time(now.0 - 31 * DAY_MS)).await;
    let lately = ends_at(&guarded, 2, Time(now.0 - 29 * DAY_MS)).await;
    guarded.auth.remove_those_over(now).await;
    let listed = guarded
        .send(&guarded.admin, ("GET", "/api/v1/tokens"), None)
        .await
        .text;
    assert!(!listed.contains(&long_ago[4..16]), "{listed}");
    assert!(listed.contains(&lately[4..16]), "{listed}");
    assert!(listed.contains(&guarded.admin[4..16]), "{listed}");
    guarded
        .send(&lately, JOBS, None)
        .await
        .fails(401, "unauthenticated");
    let audit = guarded
        .send(&guarded.admin, ("GET", "/api/v1/audit?verb=tokens"), None)
        .await
        .text;
    assert!(audit.contains("ended long ago"), "{audit}");
}

#[tokio::test]
async fn a_host_that_stops_stores_the_last_uses() {
    let guarded = Guarded::start().await;
    let token = guarded.make(&json!({"name": "u", "role": "viewer"})).await;
    let stored = async || {
        let mut kept = guarded
            .host
            .dispatch
            .read(|reader| reader.list::<KeptToken>(Range::all()))
            .await
            .unwrap();
        kept.retain(|kept| kept.token.id.as_str() == &token[4..16]);
        kept[0].used_at
    };
    guarded.send(&token, JOBS, None).await.is(StatusCode::OK);
    assert_eq!(stored().await, None);
    guarded.auth.store_rest().await;
    assert!(stored().await.is_some());
}

/// Before a host refuses a text, it looks into the store, whatever is wrong with the text.
#[tokio::test]
async fn every_wrong_text_is_looked_up_before_it_is_refused() {
    let guarded = Guarded::start().await;
    let elsewhere = json!({"name": "e", "role": "viewer", "from": ["192.0.2.0/24"]});
    let elsewhere = guarded.make(&elsewhere).await;
    let revoked = guarded.make(&json!({"name": "r", "role": "viewer"})).await;
    let path = format!("/api/v1/tokens/{}", &revoked[4..16]);
    let revoke = guarded.send(&guarded.admin, ("DELETE", &path), None);
    revoke.await.is(StatusCode::OK);
    let mistyped = guarded.admin.to_lowercase();
    let unknown = TokenText::new(&token_id(&[7; 32]), &[9; 32]);
    for wrong in [
        "x",
        "hst_",
        &mistyped,
        unknown.expose(),
        &revoked,
        &elsewhere,
    ] {
        let value = format!("Bearer {wrong}").parse().unwrap();
        let headers = HeaderMap::from_iter([(AUTHORIZATION, value)]);
        let looks = guarded.auth.learn(&Peer::default(), &headers);
        assert!(looks.is_some(), "{wrong}");
    }
}

#[tokio::test]
async fn a_rotated_token_overlaps_as_long_as_asked_for() {
    let guarded = Guarded::start().await;
    let old = guarded.make(&json!({"name": "r", "role": "viewer"})).await;
    let path = format!("/api/v1/tokens/{}/rotate", &old[4..16]);
    let rotate = async |body: Value| {
        let answer = guarded
            .send(&guarded.admin, ("POST", &path), Some(&body))
            .await;
        let body = answer.is(StatusCode::OK).body;
        body["token"].as_str().unwrap().to_owned()
    };
    let status = async |token: &str| {
        let asked = ("GET", "/api/v1/jobs");
        guarded.send(token, asked, None).await.status
    };
    let second = rotate(json!({"overlap_seconds": 600})).await;
    assert_eq!(&second[4..16], &old[4..16], "the id stays");
    assert_eq!((status(&old).await, status(&second).await), (200, 200));
    let third = rotate(json!({})).await;
    let statuses = [&old, &second, &third];
    let mut found = Vec::new();
    for token in statuses {
        found.push(status(token).await);
    }
    assert_eq!(found, [401, 401, 200]);
}
