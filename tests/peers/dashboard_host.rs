//! A host on the dashboard: its queues, handlers, components and nodes.

use std::path::Path;
use std::time::Duration;

use host_tests::browser::Browser;
use host_tests::eventually;
use serde_json::json;
use tempfile::TempDir;

use crate::dashboard::Desk;

#[test]
fn the_overview_leads_to_what_is_wrong() {
    Desk::new().with_each_hand(|desk, queue| {
        desk.waiting(queue, 2);
        desk.fail("reports", "x");
        let browser = &mut desk.browser;
        browser.open("/");
        browser.sees(&format!("{queue} is paused with 2 jobs waiting"));
        browser.click(&format!("{queue} is paused"));
        assert_eq!(browser.path(), "/queues");
        browser.click("host");
        browser.click("discarded:");
        browser.sees("told_to_fail");
        browser.click("Overview");
        browser.sees("Why the newest");
        browser.click("told_to_fail");
        assert_eq!(
            browser.path(),
            "/jobs?q=state%3Adiscarded+failure%3Atold_to_fail"
        );
        browser.click("Overview");
        browser.sees("slots in");
        browser.sees("jobs a second");
        browser.click("1 d");
        assert_eq!(browser.path(), "/?span=day");
        browser.press("", "Values as a table");
        browser.sees("Throughput: in");
    });
}

#[test]
fn a_queue_is_paused_and_resumed() {
    Desk::new().with_each_hand(|desk, queue| {
        desk.waiting(queue, 2);
        let browser = &mut desk.browser;
        browser.open("/queues");
        browser.click(&format!("Resume {queue}"));
        browser.sees("Pause");
        eventually("the jobs to run", Duration::from_mins(1), || {
            (desk.count(&format!("queue={queue}&state=completed")) == 3).then_some(())
        });
        let browser = &mut desk.browser;
        browser.click(&format!("Pause {queue}"));
        let shown = desk.client.get(&format!("/api/v1/queues/{queue}")).unwrap();
        assert_eq!(shown.body["paused"], true);
        desk.browser.click_in(queue, queue);
        desk.browser.sees("3 jobs");
    });
}

#[test]
fn a_handler_is_read_and_run() {
    Desk::new().with_each_hand(|desk, queue| {
        let browser = &mut desk.browser;
        browser.open("/handlers");
        browser.sees("Returns its params.");
        browser.click("echo");
        browser.sees("Limits and grants");
        browser.fill("Params", r#"{"n": 9007199254740993, "x": 0.1000}"#);
        browser.fill("Queue", queue);
        browser.click("Enqueue");
        let path = browser.path();
        let id = path.strip_prefix("/jobs/").unwrap();
        assert_eq!(desk.client.wait(id)["state"], "completed");
        let browser = &mut desk.browser;
        browser.open(&format!("/jobs/{id}"));
        browser.sees("9007199254740993");
        browser.sees("0.1000");
        browser.open("/handlers/sleep");
        browser.press("", "Schema of the params");
        browser.sees("How long to sleep, in milliseconds.");
    });
}

#[test]
fn a_schedule_is_set_triggered_paused_and_removed() {
    Desk::new().with_each_hand(|desk, name| {
        let browser = &mut desk.browser;
        browser.open("/schedules");
        browser.fill("Name", name);
        browser.fill("Handler", "echo");
        browser.fill("or every", "1h");
        browser.fill("Params as JSON", r#"{"n": 9007199254740993}"#);
        browser.click("Set");
        assert_eq!(browser.path(), format!("/schedules/{name}"));
        browser.sees("every 1h");
        browser.sees("9007199254740993");
        browser.sees("It has not fired yet.");
        browser.click("Trigger now");
        browser.sees("schedule.name");
        let job = browser.path();
        let id = job.strip_prefix("/jobs/").unwrap();
        assert_eq!(desk.client.wait(id)["state"], "completed");
        let browser = &mut desk.browser;
        browser.open("/schedules");
        browser.click(name);
        browser.sees("fired");
        browser.click("Pause");
        browser.sees("It does not fire.");
        browser.click("Resume");
        browser.click("Remove…");
        browser.sees("The jobs it has enqueued stay.");
        browser.click("Remove");
        assert_eq!(browser.path(), "/schedules");
        browser.open(&job);
        browser.sees("completed");
        browser.open(&format!("/schedules/{name}"));
        browser.sees("no schedule is named");
    });
}

#[test]
fn a_limit_is_seen_with_its_keys_and_removed() {
    Desk::new().with_each_hand(|desk, name| {
        desk.waiting(name, 0);
        let limit = json!({"match": {"queue": name}, "key": "/customer", "concurrency": 1});
        let path = format!("/api/v1/limits/{name}");
        let set = desk.client.call("PUT", &path, Some(&limit)).unwrap();
        assert_eq!(set.status, 200, "{set:?}");
        let job = json!({"handler": "echo", "params": {"customer": "acme"}, "queue": name});
        let ids = [0, 1].map(|_| desk.client.enqueue(&job));
        let browser = &mut desk.browser;
        browser.open(&format!("/jobs/{}", ids[1]));
        browser.sees("acme");
        browser.click("Limits");
        browser.click(name);
        browser.sees("1 at a time");
        browser.sees("acme");
        browser.click("Remove…");
        browser.sees("Jobs no longer wait for it.");
        browser.click("Remove");
        assert_eq!(browser.path(), "/limits");
        browser.sees_no("acme");
    });
}

#[test]
fn a_component_is_rolled_back_also_to_one_with_more_grants() {
    let desk = Desk::new();
    let component = std::fs::read(host_tests::guests::component("csv-summary")).unwrap();
    let grants = "[handlers.csv-summary.state]\nquota_kib = 16\n";
    for manifest in [Some(grants), None] {
        let deployed = desk.client.deploy_accepted("csv", &component, manifest);
        assert_eq!(deployed.unwrap().status, 201);
    }
    desk.with_each_hand(|desk, _| {
        let browser = &mut desk.browser;
        browser.open("/components");
        browser.click("csv");
        browser.sees("None: its handlers see only their params.");
        browser.click("Roll back…");
        browser.sees("Execute new attempts of csv with revision 1?");
        browser.click("Go to revision 1");
        browser.sees("would get new grants: csv-summary: keep state, 16 KiB");
        browser.click("Go to revision 1");
        assert_eq!(browser.path(), "/components/csv");
        browser.sees("Grants of revision 1");
        browser.sees("csv-summary: keep state, 16 KiB");
        browser.click("Roll back…");
        browser.click("Go to revision 2");
        browser.sees("None: its handlers see only their params.");
    });
}

#[test]
fn a_pool_of_runners_is_watched_and_restarted() {
    Desk::with_a_runner().with_each_hand(|desk, queue| {
        let job = json!({"handler": "own#sleep", "params": {"ms": 600_000}, "queue": queue});
        let id = desk.client.enqueue(&job);
        let browser = &mut desk.browser;
        browser.open("/executors?live=on");
        browser.sees("own/1");
        browser.sees("1 of 1 take work, 1 in flight.");
        desk.client
            .post(&format!("/api/v1/jobs/{id}/cancel"), &json!({}))
            .unwrap();
        desk.client.wait(&id);
        let pid = |desk: &Desk| {
            let pools = desk.client.items("/api/v1/runners");
            let runner = &pools[0]["runners"][0];
            runner["pid"].as_u64().filter(|_| runner["state"] == "up")
        };
        let before = pid(desk);
        let browser = &mut desk.browser;
        browser.open("/executors");
        browser.click("Restart…");
        browser.sees("Restart the runners of own? Each finishes its jobs first.");
        browser.click("Restart them");
        assert_eq!(browser.path(), "/executors");
        eventually("a new runner", Duration::from_mins(2), || {
            pid(desk).filter(|_| pid(desk) != before)
        });
    });
}

#[test]
fn a_component_is_uploaded_and_its_new_grants_are_accepted() {
    let folder = TempDir::new().unwrap();
    let manifest = |quota: u32| {
        let path = folder.path().join(format!("{quota}.toml"));
        let text = format!("[handlers.csv-summary.state]\nquota_kib = {quota}\n");
        std::fs::write(&path, text).unwrap();
        path
    };
    let (small, large) = (manifest(16), manifest(32));
    Desk::new().with_each_hand(|desk, _| {
        let component = host_tests::guests::component("csv-summary");
        let browser = &mut desk.browser;
        let deploy = |browser: &mut Browser, manifest: &Path, accept: bool| {
            browser.upload("File", &component);
            browser.upload("Manifest", manifest);
            if accept {
                browser.tick("Accept these grants for this file");
            }
            browser.click("Deploy");
        };
        browser.open("/components");
        browser.fill("Component", "csv");
        deploy(browser, &small, false);
        browser.sees("would get new grants");
        // What is accepted is what was shown.
        deploy(browser, &large, true);
        browser.sees("these files differ from those that were shown");
        deploy(browser, &large, true);
        browser.sees("is current: new attempts are executed with it");
        browser.sees("New grant");
        browser.click("The component");
        assert_eq!(browser.path(), "/components/csv");
        let removed = desk.client.call("DELETE", "/api/v1/components/csv", None);
        assert_eq!(removed.unwrap().status, 200);
    });
}

#[test]
fn tokens_are_made_and_revoked_and_the_audit_says_so() {
    Desk::new().with_each_hand(|desk, name| {
        let browser = &mut desk.browser;
        browser.open("/tokens");
        browser.fill("Name", name);
        browser.choose("Role", 'o');
        browser.fill("Only these queues", "mail-* reports");
        browser.click("Create");
        browser.sees("it is not shown again");
        browser.sees("hst_");
        browser.click("Tokens");
        browser.sees_no("hst_");
        browser.sees("mail-*");
        browser.click(&format!("Rotate {name}"));
        browser.click("Rotate");
        browser.sees("hst_");
        browser.click(&format!("Revoke {name}"));
        browser.sees("It stops working immediately.");
        browser.click("Revoke");
        browser.sees_no(&format!("{name} "));
        browser.click("Audit");
        browser.fill("Verb", "tokens");
        browser.click("Show");
        browser.sees("token ");
        browser.fill("Verb", "no-such-verb");
        browser.enter();
        browser.sees("No entry matches.");
    });
}

#[test]
fn a_node_is_drained_and_resumed() {
    Desk::new().with_each_hand(|desk, queue| {
        let browser = &mut desk.browser;
        browser.open("/nodes");
        browser.click("Drain…");
        browser.sees("start no more jobs");
        browser.click("Drain it");
        browser.sees("Resume");
        let id = desk
            .client
            .enqueue(&json!({"handler": "noop", "queue": queue}));
        let browser = &mut desk.browser;
        browser.open("/");
        browser.click("node ");
        browser.click("Resume");
        assert_eq!(desk.client.wait(&id)["state"], "completed");
        eventually("the node to say so", Duration::from_mins(1), || {
            let nodes = desk.client.items("/api/v1/nodes");
            (nodes[0]["state"] == "live").then_some(())
        });
        desk.browser.open("/nodes");
        desk.browser.sees("Drain…");
    });
}

#[test]
fn what_a_page_shows_is_copied_as_a_command() {
    Desk::new().with_each_hand(|desk, queue| {
        desk.fail(queue, "x");
        let browser = &mut desk.browser;
        browser.open(&format!("/jobs?q=queue:{queue}+state:failed"));
        browser.sees(&format!("job ls --filter 'queue:{queue} state:failed'"));
        // Also without scripts, one click marks all of a line.
        let marks = "getComputedStyle(document.querySelector('footer code')).userSelect";
        assert_eq!(browser.evaluate(marks), "all");
        if !browser.runs_scripts() {
            browser.sees_no("Copy as");
            return;
        }
        // As where a page came over plain HTTP from another machine.
        browser.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })");
        for (button, line) in [("Copy as CLI", "cli"), ("Copy as curl", "curl")] {
            browser.press("", button);
            browser.sees("Copied");
            browser.paste("Filter");
            let same = format!(
                "document.getElementById('q').value === document.getElementById('{line}').innerText"
            );
            assert_eq!(browser.evaluate(&same), true, "{button}");
        }
    });
}

#[test]
fn what_is_missing_is_said_with_what_to_do() {
    Desk::new().with_each_hand(|desk, _| {
        let browser = &mut desk.browser;
        for path in [
            "/handlers/none",
            "/components/none",
            "/jobs/00000000",
            "/jobs?q=state:odd",
        ] {
            browser.open(path);
            let alert =
                browser.evaluate("document.querySelector('[role=alert]').innerText.length > 10");
            assert_eq!(alert, true, "{path}");
        }
        browser.open("/executors");
        browser.sees("No foreign runner is configured");
        browser.click("The nodes");
        assert_eq!(browser.path(), "/nodes");
    });
}
