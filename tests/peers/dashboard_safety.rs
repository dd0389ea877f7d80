//! Attacks on the dashboard: bugs that other dashboards had, requests from elsewhere, and work for a page
//! that is hidden.

use std::time::Duration;

use host_tests::eventually;
use serde_json::json;

use crate::dashboard::Desk;

/// Sends a form of ours, as a page of this host could.
fn submits(path: &str, form: &str) -> String {
    format!(
        "fetch({}, {{ method: 'POST', body: new URLSearchParams({}) }}).then((answer) => answer.status)",
        json!(path),
        json!(form)
    )
}

#[test]
fn an_edit_without_the_permission_is_neither_offered_nor_made() {
    let mut desk = Desk::with_tokens();
    desk.waiting("mail", 1);
    let answer = desk.client.get("/api/v1/jobs?state=available").unwrap();
    let jobs = &answer.body["items"];
    let job = format!("/jobs/{}", jobs[0]["id"].as_str().unwrap());
    let token = desk.token("phone", "viewer");
    let browser = &mut desk.browser;
    browser.open("/queues");
    browser.fill("Token", &token);
    browser.enter();
    for page in [
        "/queues",
        "/jobs?q=queue:mail",
        &job,
        "/nodes",
        "/schedules",
    ] {
        browser.open(page);
        browser.sees_no("Log in");
        let script =
            "[...document.querySelectorAll('form[method=post]')].map((it) => it.action).join()";
        let value = browser.evaluate(script);
        let forms = value.as_str().unwrap();
        assert!(
            forms.ends_with("/logout") && !forms.contains(','),
            "{page}: {forms}"
        );
    }
    for (path, form) in [
        ("/queues/mail", "action=resume"),
        ("/jobs/change", "action=cancel&q=state:available&sure=true"),
        (&job, "action=purge&sure=true"),
        (&job, "action=priority&value=9"),
        ("/jobs", "handler=noop"),
        ("/schedules", "name=x&handler=noop&every=1h"),
        ("/tokens", "action=create&name=x&role=admin"),
    ] {
        assert_eq!(browser.evaluate(&submits(path, form)), 403, "{path} {form}");
    }
    let answer = desk.client.get("/api/v1/jobs?state=available").unwrap();
    let jobs = &answer.body["items"];
    assert_eq!(jobs[0]["priority"], 5, "{jobs:?}");
}

#[test]
fn a_session_begins_with_a_token_and_ends_with_the_log_out() {
    Desk::with_tokens().with_each_hand(|desk, name| {
        let token = desk.token(name, "viewer");
        let browser = &mut desk.browser;
        browser.open("/jobs?q=queue:mail");
        browser.fill("Token", "hst_wrong");
        browser.enter();
        browser.sees("This host does not accept that token.");
        browser.fill("Token", &token);
        browser.click("Log in");
        assert_eq!(browser.path(), "/jobs?q=queue:mail");
        browser.sees("No job matches.");
        browser.click("Log out");
        browser.open("/jobs?q=queue:mail");
        browser.sees("Token");
        browser.sees_no("No job matches.");
    });
}

#[test]
fn a_delete_without_a_confirmation_deletes_nothing() {
    Desk::new().with_each_hand(|desk, name| {
        let failed = desk.fail(name, "x");
        for (path, body) in [
            (
                format!("schedules/{name}"),
                json!({"when": {"every": "1h"}, "job": {"handler": "echo"}}),
            ),
            (
                format!("limits/{name}"),
                json!({"match": {"queue": name}, "key": "/customer", "concurrency": 1}),
            ),
        ] {
            let set = desk
                .client
                .call("PUT", &format!("/api/v1/{path}"), Some(&body));
            assert_eq!(set.unwrap().status, 200, "{path}");
        }
        desk.token(name, "viewer");
        let browser = &mut desk.browser;
        for (page, button) in [
            (format!("/jobs/{failed}"), "Purge…".to_owned()),
            (format!("/jobs?q=queue:{name}"), "Purge all…".to_owned()),
            (format!("/schedules/{name}"), "Remove…".to_owned()),
            (format!("/limits/{name}"), "Remove…".to_owned()),
            ("/tokens".to_owned(), format!("Revoke {name}")),
            ("/tokens".to_owned(), format!("Rotate {name}")),
            ("/nodes".to_owned(), "Drain…".to_owned()),
        ] {
            browser.open(&page);
            if button.ends_with(" all…") {
                browser.press("", "All that match…");
            }
            browser.click(&button);
            browser.sees("?");
            // One more click goes back, and leaving the page changes nothing either.
            browser.click("Back");
            browser.open(&page);
            let is_there = format!("!!finder.act('', {})", json!(button));
            assert_eq!(browser.evaluate(&is_there), true, "{page}: {button}");
        }
        assert_eq!(desk.client.job(&failed)["state"], "discarded");
        let tokens = desk.client.items("/api/v1/tokens");
        assert!(tokens.iter().any(|it| it["name"] == name), "{tokens:?}");
        assert_eq!(desk.client.items("/api/v1/nodes")[0]["state"], "live");
    });
}

#[test]
fn a_click_acts_on_the_filter_that_is_shown_not_on_a_newer_one() {
    Desk::new().with_each_hand(|desk, queue| {
        let other = format!("{queue}-other");
        desk.waiting(queue, 2);
        desk.waiting(&other, 3);
        let browser = &mut desk.browser;
        browser.open(&format!("/jobs?q=queue:{queue}"));
        // A filter that is typed but not shown yet.
        browser.fill("Filter", &format!("queue:{other}"));
        // Jobs that come to the list after it was shown.
        let later = desk
            .client
            .enqueue(&json!({"handler": "noop", "queue": queue}));
        let browser = &mut desk.browser;
        browser.press("", "All that match…");
        browser.click("Cancel all…");
        browser.sees(&format!("Cancel 2 jobs that match `queue:{queue} until:"));
        browser.sees("2 available; jobs in other states stay as they are.");
        browser.click("Cancel 2 jobs");
        browser.sees("2 jobs changed.");
        browser.click("Back to the jobs");
        assert_eq!(browser.path(), format!("/jobs?q=queue%3A{queue}"));
        assert_eq!(desk.client.job(&later)["state"], "available");
        assert_eq!(desk.count(&format!("queue={other}&state=available")), 3);
        assert_eq!(desk.count(&format!("queue={queue}&state=cancelled")), 2);
    });
}

#[test]
fn a_schedule_is_not_deleted_with_its_job() {
    Desk::new().with_each_hand(|desk, name| {
        let schedule = json!({"when": {"every": "1h"}, "job": {"handler": "echo"}});
        let path = format!("/api/v1/schedules/{name}");
        let set = desk.client.call("PUT", &path, Some(&schedule)).unwrap();
        assert_eq!(set.status, 200, "{set:?}");
        let browser = &mut desk.browser;
        browser.open(&format!("/schedules/{name}"));
        browser.click("Trigger now");
        let job = browser.path();
        desk.client.wait(job.strip_prefix("/jobs/").unwrap());
        let browser = &mut desk.browser;
        browser.open(&job);
        browser.click("Purge…");
        browser.click("Purge it");
        browser.open(&job);
        browser.sees("no job has the id");
        browser.open(&format!("/schedules/{name}"));
        browser.sees("every 1h");
        browser.sees("Trigger now");
    });
}

/// Any page of any site may send a form here, also to a host that needs no token.
#[test]
fn a_form_from_elsewhere_is_refused() {
    let mut desk = Desk::new();
    desk.waiting("mail", 1);
    let browser = &mut desk.browser;
    let host = browser.origin().to_owned();
    // The page that a browser begins with belongs to no site.
    browser.evaluate(&format!(
        "document.body.innerHTML = '<form method=post><input name=action value=resume></form>';
         document.forms[0].action = {};
         document.forms[0].submit()",
        json!(format!("{host}/queues/mail"))
    ));
    browser.sees("origin");
    let queue = desk.client.get("/api/v1/queues/mail").unwrap().body;
    assert_eq!(queue["paused"], true, "{queue}");
    // The same form, from a page of this host.
    desk.browser.open("/queues");
    let done = desk
        .browser
        .evaluate(&submits("/queues/mail", "action=resume"));
    assert_eq!(done, 200);
    let queue = desk.client.get("/api/v1/queues/mail").unwrap().body;
    assert_eq!(queue["paused"], false, "{queue}");
}

/// Without a session, and with an invented one.
#[test]
fn a_form_with_a_forged_token_is_refused() {
    let mut desk = Desk::with_tokens();
    desk.waiting("mail", 1);
    let browser = &mut desk.browser;
    browser.open("/queues");
    for cookie in [
        "",
        "host_session=hst_0123456789abcdef0123456789abcdef0123456789",
    ] {
        browser.evaluate(&format!("document.cookie = {}", json!(cookie)));
        assert_eq!(
            browser.evaluate(&submits("/queues/mail", "action=resume")),
            401
        );
        let log_in = submits("/login", "token=hst_0123456789abcdef");
        assert_eq!(browser.evaluate(&log_in), 401);
    }
    let queue = desk.client.get("/api/v1/queues/mail").unwrap().body;
    assert_eq!(queue["paused"], true, "{queue}");
}

#[test]
fn a_hidden_page_costs_nothing() {
    let mut desk = Desk::new();
    desk.waiting("mail", 1);
    let browser = &mut desk.browser;
    browser.open("/jobs?q=queue:mail");
    browser.press("", "Live: off");
    let follows = |desk: &mut Desk, streams: u64| {
        let what = format!("{streams} streams of events");
        eventually(&what, Duration::from_mins(1), || {
            (desk.browser.traffic().1 == streams).then_some(())
        });
    };
    follows(&mut desk, 1);
    desk.browser.cover(true);
    follows(&mut desk, 0);
    let (before, _) = desk.browser.traffic();
    let id = desk
        .client
        .enqueue(&json!({"handler": "noop", "queue": "mail"}));
    desk.fail("reports", "unseen");
    assert_eq!(desk.browser.traffic(), (before, 0), "nothing was asked for");
    desk.browser.cover(false);
    desk.browser.sees(&id[id.len() - 8..]);
    follows(&mut desk, 1);
    // Nor does it cost anything once it is left.
    desk.browser.open("/limits");
    follows(&mut desk, 0);
    desk.browser.assert_content();
}
