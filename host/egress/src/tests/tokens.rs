//! Access tokens that the broker gets.

use std::cell::Cell;
use std::rc::Rc;

use host_core::egress::HttpErrorKind;
use host_core::http_grant::{ClientAuth, HttpGrant, OAuth};

use super::fixture::{Server, World, grant, reply, run_with};

const LOOPBACK: &[&str] = &["127.0.0.0/8"];

fn granted(api: &Server, login: &Server) -> HttpGrant {
    let mut granted = grant(&api.origin());
    granted.oauth = Some(OAuth {
        token_url: login.url("/token?tenant=a").parse().unwrap(),
        client_id: Some("a client".parse().unwrap()),
        client_secret: Some("{secret:key}".parse().unwrap()),
        client_auth: ClientAuth::Basic,
        service_account: None,
        scope: Some("read write".to_owned()),
        audience: None,
    });
    granted
}

/// Starts a server that gives the tokens `token-1`, `token-2` and so on, valid for `seconds`.
async fn login(world: &World, seconds: &str) -> Server {
    let (given, seconds) = (Cell::new(0), seconds.to_owned());
    let answer = move |_: &str| {
        given.set(given.get() + 1);
        let token = format!("token-{}", given.get());
        let body = format!(
            "{{\"access_token\": \"{token}\", \"token_type\": \"bearer\", \"expires_in\": {seconds}}}"
        );
        reply(200, &body)
    };
    world.server(answer).await
}

/// Returns the token of each request.
fn tokens(server: &Server) -> Vec<String> {
    let token = |request: &String| {
        let (_, rest) = request.split_once("authorization: Bearer ").unwrap();
        rest.split('\r').next().unwrap().to_owned()
    };
    server.requests().iter().map(token).collect()
}

#[test]
fn a_token_is_got_once_for_many_requests_and_no_guest_sees_it() {
    run_with(LOOPBACK, |world| async move {
        let api = world.server(|request| reply(200, request)).await;
        let login = login(&world, "\"3600\"").await;
        let mut few = granted(&api, &login);
        few.max_requests = Some(4);
        let run = world.run(1, vec![few.clone()]);
        // They wait for one token together.
        for path in ["/1", "/2", "/3"] {
            run.begin(&api.url(path)).await;
        }
        for _ in 0..3 {
            let body = String::from_utf8(run.answer().await.unwrap().body).unwrap();
            assert!(
                body.contains("authorization: Bearer {secret:key}"),
                "{body}"
            );
            assert!(!body.contains("token-1"), "{body}");
        }
        // Another attempt of another revision shares it; tokens do not count among requests.
        let other = world.run(2, vec![few]);
        assert_eq!(other.get(&api.url("/4")).await.unwrap().status, 200);
        assert_eq!(run.get(&api.url("/5")).await.unwrap().status, 200);
        assert_eq!(tokens(&api), ["token-1"; 5]);
        let [asked] = <[String; 1]>::try_from(login.requests()).unwrap();
        assert!(
            asked.starts_with("POST /token?tenant=a HTTP/1.1\r\n"),
            "{asked}"
        );
        // a+client:s3cr3t-value
        assert!(
            asked.contains("authorization: Basic YStjbGllbnQ6czNjcjN0LXZhbHVl\r\n"),
            "{asked}"
        );
        assert!(
            asked.ends_with("\r\n\r\ngrant_type=client_credentials&scope=read+write"),
            "{asked}"
        );
    });
}

#[test]
fn a_token_belongs_to_its_component_and_its_section() {
    run_with(LOOPBACK, |world| async move {
        let api = world.server(|_| reply(200, "")).await;
        let login = login(&world, "3600").await;
        let mut in_body = granted(&api, &login);
        let oauth = in_body.oauth.as_mut().unwrap();
        oauth.client_auth = ClientAuth::Body;
        oauth.scope = None;
        oauth.audience = Some("b".to_owned());
        for (component, granted) in [
            ("c", granted(&api, &login)),
            ("d", granted(&api, &login)),
            ("c", in_body),
        ] {
            let run = world.run_of(component, 1, vec![granted]);
            run.get(&api.url("/")).await.unwrap();
        }
        assert_eq!(tokens(&api), ["token-1", "token-2", "token-3"]);
        let in_body = &login.requests()[2];
        let form = "grant_type=client_credentials&audience=b&client_id=a+client&client_secret=s3cr3t-value";
        assert!(in_body.ends_with(form), "{in_body}");
    });
}

#[test]
fn a_refused_token_is_replaced_once() {
    run_with(LOOPBACK, |world| async move {
        let good = Rc::new(Cell::new("token-2"));
        let wanted = Rc::clone(&good);
        let answer = move |request: &str| {
            let is_good = request.contains(&format!("Bearer {}\r", wanted.get()));
            reply(if is_good { 200 } else { 401 }, request)
        };
        let api = world.server(answer).await;
        let login = login(&world, "3600").await;
        let run = world.run(1, vec![granted(&api, &login)]);
        assert_eq!(run.get(&api.url("/")).await.unwrap().status, 200);
        assert_eq!(tokens(&api), ["token-1", "token-2"]);
        // A server that refuses each token does not have one made for each request.
        good.set("none");
        for _ in 0..3 {
            let response = run.get(&api.url("/")).await.unwrap();
            assert_eq!(response.status, 401);
            let body = String::from_utf8(response.body).unwrap();
            assert!(!body.contains("token-"), "{body}");
        }
        assert_eq!(login.requests().len(), 2);
    });
}

#[test]
fn a_token_is_got_anew_near_its_end_and_after_a_secret_has_changed() {
    run_with(LOOPBACK, |world| async move {
        let api = world.server(|_| reply(200, "")).await;
        let brief = login(&world, "0").await;
        let run = world.run(1, vec![granted(&api, &brief)]);
        run.get(&api.url("/")).await.unwrap();
        run.get(&api.url("/")).await.unwrap();
        assert_eq!(tokens(&api), ["token-1", "token-2"]);
        let lasting = login(&world, "3600").await;
        let grants = vec![granted(&api, &lasting)];
        world
            .run(1, grants.clone())
            .get(&api.url("/"))
            .await
            .unwrap();
        world.secret("key", "n3w-value");
        let run = world.run(1, grants);
        run.get(&api.url("/")).await.unwrap();
        let asked = lasting.requests();
        assert_eq!(asked.len(), 2);
        // a+client:n3w-value
        assert!(
            asked[1].contains("Basic YStjbGllbnQ6bjN3LXZhbHVl\r\n"),
            "{}",
            asked[1]
        );
    });
}

#[test]
fn a_token_that_cannot_be_got_is_an_error_that_names_its_url() {
    run_with(LOOPBACK, |world| async move {
        let api = world.server(|_| reply(200, "")).await;
        let described = "{\"error\": \"invalid_client\", \"error_description\": \"s3cr3t-value\"}";
        for (status, body, kind, end) in [
            (
                400,
                described,
                HttpErrorKind::LoginRefused,
                ": invalid_client",
            ),
            (
                401,
                "{\"error\": \"s3cr3t-value\"}",
                HttpErrorKind::LoginRefused,
                "no access token",
            ),
            (200, "{}", HttpErrorKind::LoginRefused, "no access token"),
            (
                200,
                "{\"access_token\": \"a b\"}",
                HttpErrorKind::LoginRefused,
                "no access token",
            ),
            (
                200,
                "{\"access_token\": \"a\", \"token_type\": \"mac\"}",
                HttpErrorKind::LoginRefused,
                ": its type is not Bearer",
            ),
            (503, "<html>", HttpErrorKind::Unreachable, "no access token"),
        ] {
            let login = world.server(move |_| reply(status, body)).await;
            let run = world.run(1, vec![granted(&api, &login)]);
            for _ in 0..3 {
                run.begin(&api.url("/")).await;
            }
            for _ in 0..3 {
                let error = run.answer().await.unwrap_err();
                assert_eq!(error.kind, kind, "{error}");
                let url = login.url("/token?tenant=a");
                let start = format!("{url} answered with status {status} and no access token");
                assert!(error.message.starts_with(&start), "{error}");
                assert!(error.message.ends_with(end), "{error}");
            }
            // One failure is enough for all that wait.
            assert_eq!(login.requests().len(), 1);
        }
        let silent = world.silent_server().await;
        let mut brief = grant(&api.origin());
        let login = login(&world, "1").await;
        brief.oauth = granted(&api, &login).oauth;
        let oauth = brief.oauth.as_mut().unwrap();
        oauth.token_url = silent.url("/token").parse().unwrap();
        brief.timeout_seconds = Some(0.05.try_into().unwrap());
        let error = world
            .run(1, vec![brief])
            .get(&api.url("/"))
            .await
            .unwrap_err();
        assert_eq!(error.kind, HttpErrorKind::TimedOut, "{error}");
        assert!(api.requests().is_empty());
    });
}
