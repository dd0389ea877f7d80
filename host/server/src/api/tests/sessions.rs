//! Sessions of browsers: how one begins with a token, what it may do, and when it ends.

use axum::body::Body;
use axum::http::Request as HttpRequest;
use host_http::peer::Peer;
use serde_json::json;

use super::access::Guarded;
use super::fixture::{Answer, call};

/// A browser: its address and its cookie.
struct Browser<'a> {
    guarded: &'a Guarded,
    peer: Peer,
    cookie: String,
}

impl<'a> Browser<'a> {
    fn new(guarded: &'a Guarded) -> Self {
        Self {
            guarded,
            peer: Peer::remote([127, 0, 0, 1].into()),
            cookie: String::new(),
        }
    }

    /// Begins a session.
    async fn logged_in(guarded: &'a Guarded, token: &str) -> Self {
        let mut browser = Self::new(guarded);
        let answer = browser.log_in(token, "").await;
        assert_eq!(answer.status, 303, "{answer:?}");
        browser.cookie = cookie(&answer);
        browser
    }

    async fn send(
        &self,
        (method, path): (&str, &str),
        headers: &[(&str, &str)],
        form: &str,
    ) -> Answer {
        let mut request = HttpRequest::builder()
            .method(method)
            .uri(path)
            .header("host", "127.0.0.1:7700")
            .extension(self.peer.clone());
        if !self.cookie.is_empty() {
            request = request.header("cookie", &self.cookie);
        }
        if method == "POST" && !path.starts_with("/api/") {
            request = request.header("content-type", "application/x-www-form-urlencoded");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(form.to_owned())).unwrap();
        call(&self.guarded.host.router, request).await
    }

    async fn get(&self, path: &str) -> Answer {
        self.send(("GET", path), &[], "").await
    }

    async fn post(&self, path: &str, form: &str) -> Answer {
        let own = [
            ("origin", "http://127.0.0.1:7700"),
            ("sec-fetch-site", "same-origin"),
        ];
        self.send(("POST", path), &own, form).await
    }

    async fn log_in(&self, token: &str, from: &str) -> Answer {
        let headers = [("referer", from), ("sec-fetch-site", "same-origin")];
        let form = format!("to=&token={token}");
        self.send(("POST", "/login"), &headers, &form).await
    }
}

/// Returns the pair of the cookie that an answer sets.
fn cookie(answer: &Answer) -> String {
    let set = answer.headers["set-cookie"].to_str().unwrap();
    set.split(';').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_browser_presents_its_token_once() {
    let guarded = Guarded::start().await;
    let mut browser = Browser::new(&guarded);
    let asked = browser.get("/jobs?q=state:running").await;
    assert_eq!(asked.status, 401);
    assert_eq!(asked.headers["www-authenticate"], "Bearer realm=\"host\"");
    assert!(asked.text.contains("action=\"/login\""), "{}", asked.text);
    assert!(!asked.text.contains("<nav"), "{}", asked.text);
    let wrong = browser.log_in("hst_x%0Ay", "").await;
    assert_eq!(wrong.status, 401);
    assert!(wrong.text.contains("That is not a token"), "{}", wrong.text);
    let from = "http://127.0.0.1:7700/jobs?q=state:running";
    let wrong = browser.log_in("hst_x", from).await;
    assert_eq!(wrong.status, 401);
    assert!(wrong.text.contains("does not accept"), "{}", wrong.text);
    assert!(
        wrong.text.contains("value=\"/jobs?q=state:running\""),
        "{}",
        wrong.text
    );
    assert!(!wrong.headers.contains_key("set-cookie"));

    let answer = browser.log_in(&guarded.admin, from).await;
    assert_eq!(answer.status, 303);
    assert_eq!(answer.headers["location"], "/jobs?q=state:running");
    let set = answer.headers["set-cookie"].to_str().unwrap();
    // It lasts 12 hours.
    let attributes = "; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict";
    assert!(
        set.starts_with("host_session=hst_") && set.ends_with(attributes),
        "{set}"
    );
    assert!(
        !set.contains(&guarded.admin[17..]),
        "a session is not the token"
    );
    browser.cookie = cookie(&answer);
    let page = browser.get("/queues").await;
    assert_eq!(page.status, 200, "{page:?}");
    assert!(
        page.text.contains("<bdi>admin</bdi>") && page.text.contains("Log out"),
        "the page names the token"
    );
    // Links to the API work, and a session is no token.
    assert_eq!(browser.get("/api/v1/queues").await.status, 200);
    let session = browser.cookie.strip_prefix("host_session=").unwrap();
    let bearer = guarded.send(session, ("GET", "/api/v1/queues"), None).await;
    bearer.fails(401, "unauthenticated");
    // It does not make others: that takes the token.
    let more = browser.send(
        ("POST", "/api/v1/sessions"),
        &[("content-type", "application/json")],
        "{}",
    );
    assert_eq!(more.await.status, 401);

    let out = browser.post("/logout", "").await;
    assert_eq!(
        (out.status, &out.headers["location"]),
        (303, &"/".parse().unwrap())
    );
    assert!(
        out.headers["set-cookie"]
            .to_str()
            .unwrap()
            .contains("Max-Age=0")
    );
    assert_eq!(
        browser.get("/queues").await.status,
        401,
        "it has ended, not only its cookie"
    );
    let entries = guarded
        .send(&guarded.admin, ("GET", "/api/v1/audit"), None)
        .await
        .text;
    for part in ["begun", "ended", "session of token"] {
        assert!(entries.contains(part), "{part} is not in {entries}");
    }
    assert!(!entries.contains(session));
}

#[tokio::test]
async fn a_session_ends_with_its_token() {
    let guarded = Guarded::start().await;
    for (method, end) in [("POST", "/rotate"), ("DELETE", "")] {
        let token = guarded.make(&json!({"name": "v", "role": "viewer"})).await;
        let first = Browser::logged_in(&guarded, &token).await;
        let second = Browser::logged_in(&guarded, &token).await;
        let out = first.post("/logout", "").await;
        assert_eq!(out.status, 303);
        assert_eq!(first.get("/queues").await.status, 401);
        assert_eq!(second.get("/queues").await.status, 200, "one has ended");
        let path = format!("/api/v1/tokens/{}{end}", &token[4..16]);
        let ended = guarded.send(&guarded.admin, (method, &path), None).await;
        assert_eq!(ended.status, 200, "{ended:?}");
        assert_eq!(second.get("/queues").await.status, 401, "{method}");
    }
}

#[tokio::test]
async fn wrong_tokens_at_the_login_count_and_sessions_that_are_over_do_not() {
    let guarded = Guarded::start().await;
    let mut browser = Browser::new(&guarded);
    browser.cookie = "host_session=hst_000000000000_0".to_owned();
    for _ in 0..20 {
        assert_eq!(browser.get("/").await.status, 401);
    }
    for _ in 0..10 {
        assert_eq!(browser.log_in("hst_x", "").await.status, 401);
    }
    let slowed = browser.log_in("hst_x", "").await;
    assert_eq!(slowed.status, 429);
    assert!(
        slowed.text.contains("too many wrong ones"),
        "{}",
        slowed.text
    );
    assert_eq!(browser.log_in(&guarded.admin, "").await.status, 303);
}

#[tokio::test]
async fn over_tls_a_session_is_sent_over_tls_alone() {
    let guarded = Guarded::start().await;
    let mut browser = Browser::new(&guarded);
    browser.peer.is_tls = true;
    let answer = browser.log_in(&guarded.admin, "").await;
    let set = answer.headers["set-cookie"].to_str().unwrap();
    assert!(
        set.starts_with("__Host-host_session=") && set.ends_with("; Secure"),
        "{set}"
    );
    browser.cookie = cookie(&answer);
    assert_eq!(browser.get("/").await.status, 200);
    browser.peer.is_tls = false;
    assert_eq!(browser.get("/").await.status, 401);
}

#[tokio::test]
async fn a_page_of_another_origin_cannot_use_a_session() {
    let guarded = Guarded::start().await;
    let browser = Browser::logged_in(&guarded, &guarded.admin).await;
    guarded.job("mail", "noop").await;
    for (name, value) in [
        ("origin", "http://elsewhere.example"),
        ("origin", "http://127.0.0.1:9000"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        for (path, form) in [
            ("/queues/mail", "action=pause"),
            ("/login", "token=x"),
            ("/logout", ""),
        ] {
            let answer = browser.send(("POST", path), &[(name, value)], form).await;
            assert_eq!(answer.status, 403, "{path} {name}: {value}");
        }
        let other = browser
            .send(("POST", "/api/v1/queues/mail/pause"), &[(name, value)], "")
            .await;
        assert_eq!(other.status, 403, "{name}: {value}");
    }
    // A form cannot speak to the API, not even one of ours.
    let headers = [("content-type", "application/x-www-form-urlencoded")];
    let form = browser
        .send(("POST", "/api/v1/queues/mail/pause"), &headers, "")
        .await;
    assert_eq!(form.status, 415);
    let queue = browser.get("/api/v1/queues/mail").await;
    assert_eq!(queue.body["paused"], false);
    assert_eq!(
        browser.post("/queues/mail", "action=pause").await.status,
        303
    );
    let queue = browser.get("/api/v1/queues/mail").await;
    assert_eq!(queue.body["paused"], true);
}

#[tokio::test]
async fn pages_offer_what_their_reader_may_do_and_refuse_the_rest() {
    let guarded = Guarded::start().await;
    let job = guarded.job("mail-eu", "noop").await;
    let other = guarded.job("web", "noop").await;
    let mail = json!({"name": "m", "role": "viewer", "queues": ["mail-*"]});
    let viewer = Browser::logged_in(&guarded, &guarded.make(&mail).await).await;
    let overview = viewer.get("/").await;
    assert_eq!(overview.status, 200, "{overview:?}");
    assert!(overview.text.contains("mail-eu") && !overview.text.contains(">web<"));
    assert!(
        !overview.text.contains("/nodes"),
        "a section that it may not see"
    );
    let shown = format!("/jobs/{job}");
    for (page, button) in [
        ("/queues", "value=\"pause\""),
        (shown.as_str(), "value=\"cancel\""),
        (&shown, "value=\"priority\""),
        ("/jobs?q=state:available", "/jobs/change"),
        ("/handlers/noop", "Enqueue"),
    ] {
        let hidden = viewer.get(page).await;
        assert_eq!(hidden.status, 200, "{page}: {hidden:?}");
        assert!(!hidden.text.contains(button), "{page} {button}");
        let all = Browser::logged_in(&guarded, &guarded.admin)
            .await
            .get(page)
            .await;
        assert!(all.text.contains(button), "{page} {button}: {}", all.text);
    }
    assert!(viewer.get(&shown).await.text.contains("read_payload"));
    assert_eq!(viewer.get(&format!("/jobs/{other}")).await.status, 404);
    assert_eq!(viewer.get("/nodes").await.status, 403);
    for (path, form) in [
        ("/queues/mail-eu", "action=pause"),
        (&shown, "action=cancel"),
        ("/jobs/change", "q=state:available&action=cancel&sure=true"),
        ("/jobs", "handler=noop&queue=mail-eu"),
        ("/nodes/n", "action=drain&sure=true"),
        ("/components/basics", "action=rollback&value=1&sure=true"),
    ] {
        let refused = viewer.post(path, form).await;
        assert_eq!(refused.status, 403, "{path}: {refused:?}");
        assert!(refused.text.starts_with("<!doctype html>"), "{path}");
    }
}
