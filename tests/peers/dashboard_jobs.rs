//! Jobs on the dashboard: find, watch, change and run them again.

use std::time::Duration;

use host_tests::browser::Browser;
use host_tests::eventually;
use serde_json::json;

use crate::dashboard::Desk;

#[test]
fn jobs_are_filtered_sorted_and_paged() {
    Desk::new().with_each_hand(|desk, queue| {
        desk.waiting(queue, 60);
        let browser = &mut desk.browser;
        browser.open("/");
        browser.click("Jobs");
        browser.fill("Filter", &format!("queue:{queue} state:available"));
        browser.click("Show");
        browser.sees("60 jobs");
        let first = browser.path();
        browser.click("Next page");
        assert_ne!(browser.path(), first, "each page has an address");
        browser.sees("60 jobs");
        browser.sees_no("Next page");
        // An address is all that a page depends on.
        browser.open(&first);
        browser.sees("Next page");
        browser.fill("Filter", &format!("queue:{queue} sort:oldest"));
        browser.enter();
        let row = browser.evaluate("document.querySelector('tbody tr').innerText");
        assert!(
            row.as_str().unwrap().contains("completed"),
            "the first job was the oldest: {row}"
        );
        browser.fill("Filter", "colour:red");
        browser.enter();
        browser.sees("`colour:red`: the keys are");
        browser.click("discarded");
        browser.sees("No job matches.");
    });
}

#[test]
fn a_job_is_watched_cancelled_and_purged() {
    Desk::new().with_each_hand(|desk, queue| {
        let id = desk.sleep(queue);
        let browser = &mut desk.browser;
        browser.open(&format!("/jobs?q=queue:{queue}"));
        browser.click("sleep");
        browser.sees("600000");
        browser.sees(&format!("job show {id}"));
        browser.click("Cancel");
        let job = desk.client.wait(&id);
        assert_eq!(job["state"], "cancelled", "{job}");
        let browser = &mut desk.browser;
        browser.open(&format!("/jobs/{id}"));
        browser.sees("cancelled on the dashboard");
        browser.click("Purge…");
        browser.sees(&format!("Purge job {id}"));
        browser.click("Back");
        browser.click("Purge…");
        browser.click("Purge it");
        assert!(browser.path().starts_with("/jobs"));
        browser.open(&format!("/jobs/{id}"));
        browser.sees("no job has the id");
    });
}

#[test]
fn a_job_is_retried_and_run_again_with_other_params() {
    Desk::new().with_each_hand(|desk, queue| {
        let id = desk.fail(queue, "first");
        let browser = &mut desk.browser;
        browser.open(&format!("/jobs/{id}"));
        browser.sees("told_to_fail");
        browser.click("Retry");
        let job = desk.client.wait(&id);
        assert_eq!(job["attempt"], 2, "{job}");
        let browser = &mut desk.browser;
        browser.open(&format!("/jobs/{id}"));
        browser.click("Run again with other params");
        browser.sees("The message of the error.");
        browser.fill("message", "second");
        browser.choose("category", 'd');
        browser.click("Enqueue");
        assert_ne!(browser.path(), format!("/jobs/{id}"), "it is another job");
        browser.sees("second");
        browser.sees("data-quality");
        // A schema that does not match is said, and nothing is enqueued.
        for (params, said) in [
            (r#"{"message": 5}"#, "message"),
            ("{", "not valid JSON at line 1"),
        ] {
            browser.open(&format!("/handlers/fail?job={id}"));
            browser.press("", "Params as JSON");
            browser.fill("Params", params);
            browser.click("Enqueue this");
            browser.sees(said);
        }
        assert_eq!(desk.count(&format!("queue={queue}")), 2);
    });
}

#[test]
fn the_priority_of_a_job_is_changed() {
    Desk::new().with_each_hand(|desk, queue| {
        desk.waiting(queue, 1);
        let query = format!("/api/v1/jobs?queue={queue}&state=available");
        let jobs = desk.client.get(&query).unwrap().body;
        let id = jobs["items"][0]["id"].as_str().unwrap();
        let browser = &mut desk.browser;
        browser.open(&format!("/jobs/{id}"));
        browser.choose("Priority", '9');
        browser.click("Set");
        assert_eq!(desk.client.job(id)["priority"], 9);
        desk.browser.sees("is paused");
    });
}

#[test]
fn selected_jobs_and_all_jobs_get_another_priority() {
    Desk::new().with_each_hand(|desk, queue| {
        desk.waiting(queue, 3);
        let query = format!("/api/v1/jobs?queue={queue}&state=available");
        let jobs = desk.client.get(&query).unwrap().body;
        let ids = [0, 1].map(|n| jobs["items"][n]["id"].as_str().unwrap().to_owned());
        let list = format!("/jobs?q=queue:{queue}+state:available");
        let browser = &mut desk.browser;
        browser.open(&list);
        for id in &ids {
            browser.tick(&format!("Select {id}"));
        }
        browser.choose("Priority of the selected jobs", '9');
        browser.click("Set priority of the selected jobs");
        browser.sees("Set priority 9 for 2 jobs?");
        browser.click("Set priority 9 for 2 jobs");
        browser.sees("2 jobs changed");
        let priorities = |desk: &Desk| {
            let jobs = desk.client.get(&query).unwrap().body;
            [0, 1, 2].map(|n| jobs["items"][n]["priority"].as_u64().unwrap())
        };
        assert_eq!(priorities(desk), [9, 9, 5]);
        let browser = &mut desk.browser;
        browser.click("Back to the jobs");
        browser.open(&list);
        browser.press("", "All that match…");
        browser.choose("Priority of all jobs", '1');
        browser.click("Set priority of all…");
        browser.sees("Set priority 1 for 3 jobs that match");
        browser.click("Set priority 1 for 3 jobs");
        browser.sees("3 jobs changed");
        assert_eq!(priorities(desk), [1, 1, 1]);
    });
}

#[test]
fn all_jobs_that_match_are_changed_after_a_question() {
    Desk::new().with_each_hand(|desk, queue| {
        desk.waiting(queue, 101);
        let browser = &mut desk.browser;
        browser.open(&format!("/jobs?q=queue:{queue}+state:available"));
        browser.press("", "All that match…");
        browser.click("Cancel all…");
        browser.sees("Cancel 101 jobs that match");
        browser.sees("Among them:");
        // What comes after the question was not meant.
        let later = desk
            .client
            .enqueue(&json!({"handler": "noop", "queue": queue}));
        let browser = &mut desk.browser;
        browser.fill("Type", "cancel 100");
        browser.click("Cancel 101 jobs");
        browser.sees("The typed text does not match.");
        browser.fill("Type", "cancel 101");
        browser.click("Cancel 101 jobs");
        browser.sees("101 jobs changed");
        assert_eq!(desk.client.job(&later)["state"], "available");
        assert_eq!(desk.count(&format!("queue={queue}&state=cancelled")), 101);
        let browser = &mut desk.browser;
        browser.click("Back to the jobs");
        browser.open(&format!("/jobs?q=queue:{queue}+state:cancelled"));
        browser.press("", "All that match…");
        browser.click("Retry all…");
        browser.fill("Type", "retry 101");
        browser.enter();
        browser.sees("101 jobs changed");
        browser.open(&format!("/jobs?q=queue:{queue}+state:completed"));
        browser.press("", "All that match…");
        browser.click("Purge all…");
        browser.click("Purge 1 job");
        browser.sees("1 job changed");
        assert_eq!(desk.count(&format!("queue={queue}&state=completed")), 0);
    });
}

/// A change of more jobs than one step makes shows how far it is. A filter without a state means the jobs whose states
/// allow the change.
#[test]
fn a_change_of_many_jobs_goes_on_by_itself_or_is_stopped() {
    Desk::new().with_each_hand(|desk, queue| {
        desk.waiting(queue, 0);
        let seven_hundred = json!(vec![json!({"handler": "noop", "queue": queue}); 700]);
        for _ in 0..3 {
            let answer = desk.client.post("/api/v1/jobs", &seven_hundred).unwrap();
            assert_eq!(answer.status, 201, "{answer:?}");
        }
        let browser = &mut desk.browser;
        browser.open(&format!("/jobs?q=queue:{queue}"));
        browser.press("", "All that match…");
        browser.click("Cancel all…");
        browser.sees("2,100 available; jobs in other states stay as they are.");
        browser.fill("Type", "cancel 2100");
        browser.click("Cancel 2,100 jobs");
        if browser.runs_scripts() {
            browser.sees("2,100 jobs changed.");
            browser.sees_no("Stop");
        } else {
            browser.sees("2,000 jobs changed of 2,100 so far.");
            browser.click("Stop");
            browser.sees("Stopped: 2,000 jobs changed; the others stay as they are.");
            assert_eq!(desk.count(&format!("queue={queue}&state=available")), 100);
            let browser = &mut desk.browser;
            browser.click("Back to the jobs");
            browser.press("", "All that match…");
            browser.click("Cancel all…");
            browser.click("Cancel 100 jobs");
            browser.sees("100 jobs changed.");
        }
        assert_eq!(desk.count(&format!("queue={queue}&state=cancelled")), 2_100);
        // The job that has completed cannot be cancelled, and no other is left.
        let browser = &mut desk.browser;
        browser.open(&format!("/jobs?q=queue:{queue}"));
        browser.press("", "All that match…");
        browser.click("Cancel all…");
        browser.sees("no job that matches is in one of these states: pending");
    });
}

#[test]
fn jobs_are_found_by_what_people_know_of_them() {
    Desk::new().with_each_hand(|desk, queue| {
        let body = json!({"handler": "echo", "params": {"order": {"id": 77, "note": "Two words"}}, "queue": queue,
            "unique_key": format!("order-{queue}"), "attributes": {"customer": queue, "region": "eu"}});
        let job = desk.client.run(&body);
        let id = job["id"].as_str().unwrap();
        let browser = &mut desk.browser;
        for find in [
            id.to_owned(),
            id[..id.len() - 2].to_owned(),
            format!("order-{queue}"),
            format!("unique:order-{queue} queue:{queue}"),
            format!("handler:echo queue:{queue}"),
            format!("attr.customer:{queue}"),
            format!("params.order.id:77 queue:{queue}"),
            format!("queue:{queue} since:2h wire:http"),
            format!("attr.customer:{queue} attr.region:eu params.order.id:77 params.order.note:\"Two words\""),
            format!("queue:{queue} order \"two WORDS\""),
        ] {
            browser.open("/");
            browser.fill("Find jobs", &find);
            browser.enter();
            browser.sees(&id[id.len() - 8..]);
        }
        browser.open(&format!("/jobs?q=queue:{queue}+params.order.id:78"));
        browser.sees("No job matches.");
        for (word, leads_to) in [(queue, "/jobs?q=queue%3A"), ("spin", "/handlers/spin")] {
            browser.open("/queues");
            browser.fill("Find jobs", word);
            browser.enter();
            assert!(browser.path().starts_with(leads_to), "{}", browser.path());
        }
        browser.click("What can be found");
        browser.sees("params.KEY");
        browser.fill("Find", "nothing-has-this-name");
        browser.click("Find");
        browser.sees("Nothing has this id, name or key.");
        browser.click("Search all jobs for this text");
        browser.sees("No job matches.");
    });
}

#[test]
fn a_log_is_read_page_by_page_and_searched() {
    Desk::new().with_each_hand(|desk, queue| {
        let body = json!({"handler": "log", "params": {"lines": 250}, "queue": queue});
        let job = desk.client.run(&body);
        let path = format!("/jobs/{}", job["id"].as_str().unwrap());
        let browser = &mut desk.browser;
        browser.open(&path);
        browser.sees("line 100 of 250");
        browser.sees_no("line 101 of 250");
        browser.click("Later lines");
        browser.sees("line 200 of 250");
        browser.open(&path);
        browser.click("The last lines");
        browser.sees("line 250 of 250");
        browser.sees_no("line 150 of 250");
        browser.open(&path);
        browser.fill("Lines with", "line 24");
        browser.choose("Attempt", '1');
        browser.click("Search");
        browser.sees("line 249 of 250");
        browser.sees("line 24 of 250");
        browser.sees_no("line 25 of 250");
        browser.fill("Lines with", "nowhere");
        browser.enter();
        browser.sees("None of 250 lines matches.");
    });
}

#[test]
fn a_batch_is_watched_and_cancelled() {
    Desk::new().with_each_hand(|desk, queue| {
        let jobs = vec![json!({"handler": "sleep", "params": {"ms": 600_000}, "queue": queue}); 2];
        let body = json!({"on_end": {"handler": "echo", "queue": queue}, "jobs": jobs});
        let batch = desk.client.post("/api/v1/batches", &body).unwrap().body;
        let id = batch["batch"]["id"].as_str().unwrap();
        let browser = &mut desk.browser;
        browser.open("/batches");
        browser.click(id);
        browser.sees("It has not ended");
        browser.click("Cancel…");
        browser.sees("Its jobs are cancelled, also those that run.");
        browser.click("Cancel");
        assert_eq!(browser.path(), format!("/batches/{id}"));
        eventually("the batch to end", Duration::from_mins(1), || {
            let batch = desk.client.get(&format!("/api/v1/batches/{id}")).unwrap();
            batch.body["ended_at"].is_string().then_some(())
        });
        assert_eq!(desk.count(&format!("queue={queue}&state=cancelled")), 2);
        let browser = &mut desk.browser;
        browser.open(&format!("/batches/{id}"));
        browser.sees("Cancelled");
        browser.sees_no("Cancel…");
    });
}

#[test]
fn jobs_that_wait_for_each_other_lead_to_each_other() {
    Desk::new().with_each_hand(|desk, queue| {
        desk.waiting(queue, 0);
        let first = desk
            .client
            .enqueue(&json!({"handler": "noop", "queue": queue}));
        let body = json!({"handler": "echo", "depends_on": [first], "queue": queue});
        let waits = desk.client.enqueue(&body);
        let browser = &mut desk.browser;
        browser.open(&format!("/jobs/{first}"));
        browser.click_in("Dependencies", "echo");
        assert_eq!(browser.path(), format!("/jobs/{waits}"));
        browser.sees("pending");
        browser.click_in("Dependencies", "noop");
        assert_eq!(browser.path(), format!("/jobs/{first}"));
    });
}

#[test]
fn failures_with_the_same_cause_are_retried_together() {
    Desk::new().with_each_hand(|desk, queue| {
        desk.fail(queue, &format!("{queue}: no order 1"));
        desk.fail(queue, &format!("{queue}: no order 22"));
        let other = desk.fail(queue, &format!("{queue}: no customer"));
        let browser = &mut desk.browser;
        browser.open("/");
        browser.click("Failures");
        browser.sees(&format!("{queue}: no order #"));
        browser.click_in(&format!("{queue}: no order #"), "2");
        browser.sees("2 jobs");
        browser.open("/failures");
        browser.click_in(&format!("{queue}: no order #"), "Retry those of fail");
        browser.sees("Retry 2 jobs that match");
        browser.click("Retry 2 jobs");
        browser.sees("2 jobs changed");
        assert_eq!(desk.client.job(&other)["attempt"], 1);
    });
}

#[test]
fn a_page_that_is_live_follows_what_happens() {
    Desk::new().with_each_hand(|desk, queue| {
        let logs =
            json!({"handler": "log", "params": {"lines": 1_000, "pause_ms": 500}, "queue": queue});
        let id = desk.client.enqueue(&logs);
        let browser = &mut desk.browser;
        browser.open(&format!("/jobs/{id}?find=line"));
        browser.sees("running");
        let with_scripts = browser.runs_scripts();
        if with_scripts {
            browser.press("", "Live: off");
        } else {
            browser.click("Live: off");
            assert_eq!(browser.path(), format!("/jobs/{id}?find=line&live=on"));
        }
        browser.sees("Live: on");
        browser.evaluate("window.kept = true");
        // Nothing happens to the job but that it logs.
        browser.sees("line 10 of 1000");
        let cancelled = desk
            .client
            .post(&format!("/api/v1/jobs/{id}/cancel"), &json!({}))
            .unwrap();
        assert_eq!(cancelled.status, 200, "{cancelled:?}");
        desk.client.wait(&id);
        let browser = &mut desk.browser;
        browser.sees("Cancel requested");
        let kept = browser.evaluate("window.kept === true");
        assert_eq!(
            kept, with_scripts,
            "with scripts, the page is not loaded again"
        );
        browser.open(&format!("/jobs?q=queue:{queue}&live=on"));
        browser.sees("Live: on");
        desk.fail(queue, "while a user looks");
        desk.browser.sees("told_to_fail");
        let browser = &mut desk.browser;
        if with_scripts {
            browser.press("", "Live: on");
        } else {
            browser.click("Live: on");
        }
        browser.sees("Live: off");
    });
}

#[test]
fn a_page_is_live_until_the_user_turns_that_off() {
    let desk = Desk::new();
    let address = desk.browser.origin().replace("http://", "");
    let mut browser = Browser::start(&address);
    browser.open("/jobs?q=queue:mail");
    browser.sees("Live: on");
    desk.fail("mail", "while a user looks");
    browser.sees("told_to_fail");
    browser.press("", "Live: on");
    browser.sees("Live: off");
    // It is remembered.
    browser.open("/");
    browser.sees("Live: off");
    browser.press("", "Live: off");
    browser.open("/jobs");
    browser.sees("Live: on");
    browser.assert_content();
}

#[test]
fn the_search_suggests_pages_and_names() {
    let mut desk = Desk::new();
    let browser = &mut desk.browser;
    browser.open("/handlers/flaky");
    browser.open("/");
    browser.evaluate(
        "document.body.dispatchEvent(new KeyboardEvent('keydown', { key: '/', bubbles: true }))",
    );
    browser.sees("recent");
    browser.fill("Find jobs", "flak");
    browser.sees("flaky");
    browser.fill("Find jobs", "ech");
    browser.sees("echo");
    browser.key("ArrowDown", 40, "");
    browser.enter();
    assert_eq!(browser.path(), "/handlers/echo");
    browser.assert_content();
}
