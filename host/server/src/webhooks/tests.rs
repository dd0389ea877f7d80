//! Tests of where webhooks may go, how they are signed, and what answers mean.

use host_core::egress::{HttpError, HttpErrorKind, HttpResponse};
use host_core::notify::JOB_EVENTS;
use host_core::outcome::Outcome;
use host_core::time::Time;

use super::*;

fn webhooks() -> Webhooks {
    let section = |to: &str, paths: &[&str], secrets: &[&str]| Allowed {
        to: to.parse().unwrap(),
        paths: paths.iter().map(|it| (*it).to_owned()).collect(),
        secrets: secrets.iter().map(|it| (*it).to_owned()).collect(),
        handlers: Vec::new(),
        queues: Vec::new(),
    };
    Webhooks::new(BTreeMap::from([
        (
            "a".parse().unwrap(),
            section("https://a.example", &["/hooks/**"], &["a", "both"]),
        ),
        (
            "b".parse().unwrap(),
            section("https://*.b.example:8443", &[], &["b", "both"]),
        ),
    ]))
}

#[test]
fn a_webhook_goes_only_where_the_configuration_allows() {
    let webhooks = webhooks();
    #[rustfmt::skip]
    let table = [
        ("https://a.example/hooks/1", "a", true),
        ("https://a.example/hooks/1?x=../..", "both", true),
        ("https://a.example:443/hooks/x/y", "a", true),
        ("https://x.b.example:8443", "b", true),
        // The secret is for another server.
        ("https://a.example/hooks/1", "b", false),
        ("https://x.b.example:8443/", "a", false),
        ("https://a.example/hooks/1", "unknown", false),
        // Another scheme, port, host or path.
        ("http://a.example/hooks/1", "a", false),
        ("https://a.example:8443/hooks/1", "a", false),
        ("https://b.example:8443/", "b", false),
        ("https://a.example.evil/hooks/1", "a", false),
        ("https://169.254.169.254/hooks/1", "a", false),
        ("https://a.example/", "a", false),
        // What readers of URLs may take for something else.
        ("https://a.example@evil/hooks/1", "a", false),
        ("https://evil\\@a.example/hooks/1", "a", false),
        ("https://a.example/hooks/../admin", "a", false),
        ("https://a.example/hooks/%2e%2e/admin", "a", false),
        ("https://a.example/hooks\\..\\admin", "a", false),
        ("https://a.example/hooks/1#x", "a", false),
        ("https://*.b.example:8443/", "b", false),
        ("https://A.example/hooks/1", "a", false),
        ("https://a.example/hooks/ 1", "a", false),
        ("file:///etc/passwd", "a", false),
        ("", "a", false),
    ];
    for (url, secret, allowed) in table {
        let grant = webhooks.grant(url, secret);
        assert_eq!(grant.is_ok(), allowed, "{url} {secret}: {grant:?}");
    }
}

#[test]
fn a_webhook_may_be_for_some_handlers_and_queues() {
    let glob = |text: &str| vec![Glob::try_from(text.to_owned()).unwrap()];
    let check = |handlers: &str, queues: &str, sender: Sender<'_>| {
        let allowed = Allowed {
            to: "https://a.example".parse().unwrap(),
            paths: Vec::new(),
            secrets: vec!["a".to_owned()],
            handlers: glob(handlers),
            queues: glob(queues),
        };
        let body = NotifyBody {
            url: "https://a.example/".to_owned(),
            secret: "a".to_owned(),
            events: Vec::new(),
        };
        let webhooks = Webhooks::new(BTreeMap::from([("shop".parse().unwrap(), allowed)]));
        webhooks.check(body, &JOB_EVENTS, sender)
    };
    let queue: Name = "orders".parse().unwrap();
    let job = |handler| Sender::Job {
        handler,
        queue: &queue,
    };
    assert!(check("pay*", "orders", job("pay-all")).is_ok());
    for (handlers, queues, sender) in [
        ("pay*", "orders", job("mail")),
        ("pay*", "other", job("pay")),
        ("pay*", "orders", job("python#pay")),
        ("pay*", "orders", Sender::Queue(&queue)),
        ("pay*", "orders", Sender::Batch),
    ] {
        let refused = check(handlers, queues, sender).unwrap_err();
        assert!(refused.contains("[webhooks.shop]"), "{sender:?}: {refused}");
    }
}

#[test]
fn a_host_without_sections_allows_no_webhook() {
    let body = NotifyBody {
        url: "https://a.example/hooks/1".to_owned(),
        secret: "a".to_owned(),
        events: Vec::new(),
    };
    let refused = Webhooks::default()
        .check(body, &JOB_EVENTS, Sender::Host)
        .unwrap_err();
    assert!(refused.contains("[webhooks.NAME]"), "{refused}");
}

#[test]
fn an_event_must_be_one_of_those_that_can_happen() {
    let body = |events: &[&str]| NotifyBody {
        url: "https://a.example/hooks/1".to_owned(),
        secret: "a".to_owned(),
        events: events.iter().map(|it| (*it).to_owned()).collect(),
    };
    let all = webhooks()
        .check(body(&[]), &JOB_EVENTS, Sender::Host)
        .unwrap();
    assert_eq!(all.events, JOB_EVENTS);
    let twice = body(&["job.discarded", "job.discarded"]);
    let one = webhooks().check(twice, &JOB_EVENTS, Sender::Host).unwrap();
    assert_eq!(one.events, [Event::JobDiscarded]);
    let refused = webhooks()
        .check(body(&["batch.end"]), &JOB_EVENTS, Sender::Host)
        .unwrap_err();
    assert!(refused.contains("job.completed"), "{refused}");
}

#[test]
fn a_message_is_signed_as_the_standard_says() {
    let sign = |secret| {
        let body = r#"{"test": 2432232314}"#;
        signature::sign(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body)
    };
    let vector = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
    assert_eq!(
        sign("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap(),
        vector
    );
    assert_eq!(sign("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap(), vector);
    for bad in [
        "",
        "whsec_",
        "whsec_c2hvcnQ=",
        "no base64 at all, but long enough for a key",
    ] {
        assert!(sign(bad).is_err(), "{bad:?}");
    }
}

/// 6 November 1994, 08:49:30.
const NOW: Time = Time(784_111_770_000);

fn outcome_of(status: u16, headers: &[(&str, &str)]) -> Outcome {
    let headers = headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let answer = HttpResponse {
        status,
        headers: headers.collect(),
        body: b"ok \xff".to_vec(),
    };
    outcome::read(Ok(answer), NOW)
}

#[test]
fn only_2xx_is_a_success_and_only_410_ends_the_retries() {
    for status in [200, 204, 299] {
        let Outcome::Completed { result } = outcome_of(status, &[]) else {
            panic!("{status}");
        };
        assert!(result.unwrap().as_str().contains(&status.to_string()));
    }
    for (status, again) in [
        (301, true),
        (400, true),
        (404, true),
        (410, false),
        (500, true),
        (503, true),
    ] {
        let Outcome::Failed(failure) = outcome_of(status, &[("location", "https://evil.example/")])
        else {
            panic!("{status}");
        };
        assert_eq!(failure.is_retryable(), again, "{status}");
    }
}

#[test]
fn a_busy_receiver_is_left_alone_for_a_while() {
    for (status, after, ms) in [
        (429, "7", 7_000),
        (503, "0", 0),
        (503, "Sun, 06 Nov 1994 08:49:37 GMT", 7_000),
        (429, "Sunday, 06-Nov-94 08:50:30 GMT", 60_000),
        (503, "Sun Nov  6 08:49:37 1994", 7_000),
        (503, "Sun, 06 Nov 1994 08:00:00 GMT", 0),
        (503, "Sat, 06 Nov 2094 08:00:00 GMT", 14_400_000),
        (429, "999999999", 14_400_000),
    ] {
        let outcome = outcome_of(status, &[("retry-after", after)]);
        let Outcome::Retry { after_ms, .. } = outcome else {
            panic!("{status}");
        };
        assert_eq!(after_ms, Some(ms));
    }
    for (status, after) in [(429, "soon"), (503, "-1"), (500, "7")] {
        assert!(matches!(
            outcome_of(status, &[("retry-after", after)]),
            Outcome::Failed(_)
        ));
    }
}

#[test]
fn a_refused_address_is_not_tried_again_and_one_that_is_down_is() {
    for (kind, again) in [
        (HttpErrorKind::AddressNotAllowed, false),
        (HttpErrorKind::NotGranted, false),
        (HttpErrorKind::ConnectionRefused, true),
        (HttpErrorKind::TimedOut, true),
        (HttpErrorKind::CertificateRefused, true),
        (HttpErrorKind::Unavailable, true),
    ] {
        let Outcome::Failed(failure) = outcome::read(Err(HttpError::new(kind, "why")), NOW) else {
            panic!("{kind:?}");
        };
        assert_eq!(failure.is_retryable(), again, "{kind:?}");
    }
}
