//! The dashboard in a real browser: what its tests share, how its pages look, and that they are accessible, whatever
//! guests write.

use std::path::PathBuf;

use host_tests::browser::{Browser, Hand};
use host_tests::pool::workers;
use host_tests::{Client, Options, Server, guests, peers};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Finds what hinders people with disabilities.
const AXE: &str = "node_modules/axe-core/axe.min.js";

/// The ways to use a page. Each does every flow.
const HANDS: [Hand; 3] = [Hand::Mouse, Hand::Keyboard, Hand::WithoutScripts];

/// A host with example handlers, and a browser at it.
pub(crate) struct Desk {
    pub(crate) browser: Browser,
    pub(crate) client: Client,
    _server: Server,
    _data: TempDir,
}

impl Desk {
    pub(crate) fn new() -> Self {
        let data = TempDir::new().unwrap();
        let server = Server::start(&Options::new(data.path()));
        let client = server.client();
        Self::at(server, client, data)
    }

    /// The same, with a pool of one foreign runner.
    pub(crate) fn with_a_runner() -> Self {
        let data = TempDir::new().unwrap();
        let config = data.path().join("host.toml");
        let pool = format!("[protocol.rrq.runners.own]\n{}", workers(1, 2));
        std::fs::write(&config, pool).unwrap();
        let mut options = Options::new(data.path());
        options.args = vec!["--config".to_owned(), config.display().to_string()];
        let server = Server::start(&options);
        let client = server.client();
        Self::at(server, client, data)
    }

    /// The same, where each request needs a token. The client has one for everything, the browser has none.
    pub(crate) fn with_tokens() -> Self {
        let data = TempDir::new().unwrap();
        let mut options = Options::new(data.path());
        let mode = ("HOST_AUTH_MODE".to_owned(), "tokens".to_owned());
        options.env.push(mode);
        let server = Server::start(&options);
        let token = std::fs::read_to_string(data.path().join("admin.token")).unwrap();
        let client = server.client().with_token(token.trim());
        Self::at(server, client, data)
    }

    fn at(server: Server, client: Client, data: TempDir) -> Self {
        let component = std::fs::read(guests::component("basics")).unwrap();
        let deployed = client.deploy("basics", &component, None).unwrap();
        assert_eq!(deployed.status, 201, "{deployed:?}");
        let mut browser = Browser::start(server.address());
        browser.stand_still();
        Self {
            browser,
            client,
            _server: server,
            _data: data,
        }
    }

    /// Does something with each hand, and checks that the browser was content. The hand's name is part of names.
    pub(crate) fn with_each_hand(mut self, flow: impl Fn(&mut Self, &str)) {
        for hand in HANDS {
            self.browser.take(hand);
            flow(&mut self, &format!("{hand:?}").to_lowercase());
        }
        self.browser.assert_content();
    }

    /// Makes a token with a role.
    pub(crate) fn token(&self, name: &str, role: &str) -> String {
        let body = json!({"name": name, "role": role});
        let made = self.client.post("/api/v1/tokens", &body).unwrap();
        made.body["token"].as_str().unwrap().to_owned()
    }

    /// Runs a job that fails.
    pub(crate) fn fail(&self, queue: &str, message: &str) -> String {
        let body = json!({"handler": "fail", "params": {"message": message}, "max_attempts": 1, "queue": queue});
        let job = self.client.run(&body);
        assert_eq!(job["state"], "discarded", "{job}");
        job["id"].as_str().unwrap().to_owned()
    }

    /// Enqueues a job that runs until it is stopped.
    pub(crate) fn sleep(&self, queue: &str) -> String {
        let job = json!({"handler": "sleep", "params": {"ms": 600_000}, "queue": queue});
        self.client.enqueue(&job)
    }

    /// Pauses a queue that does not exist yet and enqueues jobs there.
    pub(crate) fn waiting(&self, queue: &str, count: usize) {
        let _ = self.client.run(&json!({"handler": "noop", "queue": queue}));
        let paused = self
            .client
            .post(&format!("/api/v1/queues/{queue}/pause"), &json!({}));
        assert_eq!(paused.unwrap().status, 200);
        if count == 0 {
            return;
        }
        let jobs = vec![json!({"handler": "noop", "queue": queue}); count];
        let answer = self.client.post("/api/v1/jobs", &json!(jobs)).unwrap();
        assert_eq!(answer.status, 201, "{answer:?}");
    }

    /// Returns how many jobs match the parameters of the API.
    pub(crate) fn count(&self, query: &str) -> Value {
        let answer = self.client.get(&format!("/api/v1/jobs/count?{query}"));
        answer.unwrap().body["jobs"].take()
    }
}

/// Texts that try to be more than text.
const HOSTILE: &[&str] = &[
    "<script>document.title = 'owned'</script>",
    "\"><img src=x onerror=\"document.title = 'owned'\">",
    "</textarea></pre></table><h1>owned</h1>",
    "\u{202e}right to left\u{2066}",
    "\u{1b}[31mred\u{1b}[0m\u{7}\u{9b}2J",
];

/// Jobs of a host that has some of all kinds.
struct Filled {
    failed: String,
    sleeps: String,
    /// It has completed, with a log.
    logs: String,
    /// It waits for a limit.
    waits: String,
    batch: String,
    /// Jobs with hostile logs.
    hostile: Vec<String>,
}

/// Fills a host with jobs of all kinds, of whom some write hostile texts.
fn fill(desk: &Desk) -> Filled {
    for (n, text) in HOSTILE.iter().enumerate() {
        let job = json!({"handler": "echo", "params": {"text": text}, "queue": "mail", "unique_key": text,
            "attributes": {"customer": text, "n": n.to_string()}});
        desk.client.run(&job);
        desk.fail("reports", text);
    }
    let long = "x".repeat(20_000);
    let failed = desk.fail("reports", &long);
    let logs = desk
        .client
        .run(&json!({"handler": "log", "params": {"lines": 40}, "queue": "mail"}));
    desk.client
        .run(&json!({"handler": "flaky", "params": {"fail_times": 2}, "queue": "mail"}));
    desk.waiting("nightly", 3);
    let schedule = json!({"when": {"cron": "30 2 * * *"}, "time_zone": "Europe/Berlin", "note": HOSTILE[0],
        "job": {"handler": "echo", "queue": "mail", "params": {"text": HOSTILE}}});
    let set = desk
        .client
        .call("PUT", "/api/v1/schedules/nightly", Some(&schedule));
    assert_eq!(set.unwrap().status, 200);
    let limit =
        json!({"key": "/customer", "concurrency": 1, "rate": {"count": 10, "per_seconds": 60}});
    let set = desk
        .client
        .call("PUT", "/api/v1/limits/by-customer", Some(&limit));
    assert_eq!(set.unwrap().status, 200);
    let body = json!({"handler": "noop", "params": {"customer": HOSTILE[1]}, "queue": "nightly"});
    let limited = [0, 1].map(|_| desk.client.enqueue(&body));
    assert_eq!(desk.client.job(&limited[1])["state"], "pending");
    let trigger = "/api/v1/schedules/nightly/trigger";
    assert_eq!(desk.client.post(trigger, &json!({})).unwrap().status, 200);
    let body = json!({"on_end": {"handler": "echo"}, "open": true});
    let batch = desk.client.post("/api/v1/batches", &body).unwrap().body;
    let sleeps = desk.sleep("mail");
    if !desk.client.items("/api/v1/runners").is_empty() {
        let of_runner = json!({"handler": "own#sleep", "params": {"ms": 600_000}});
        desk.client.enqueue(&of_runner);
    }
    let id = |value: &Value| value.as_str().unwrap().to_owned();
    Filled {
        failed,
        sleeps,
        logs: id(&logs["id"]),
        waits: limited[1].clone(),
        batch: id(&batch["batch"]["id"]),
        hostile: hostile_logs(desk),
    }
}

/// Runs guests that write what could be markup, move a terminal's cursor or flood a page to their logs.
fn hostile_logs(desk: &Desk) -> Vec<String> {
    let component = std::fs::read(guests::component("hostile")).unwrap();
    let deployed = desk.client.deploy("hostile", &component, None).unwrap();
    assert_eq!(deployed.status, 201, "{deployed:?}");
    let run = |(handler, params): (&str, Value)| {
        let job =
            json!({"handler": handler, "params": params, "queue": "reports", "max_attempts": 1});
        desk.client.run(&job)["id"].as_str().unwrap().to_owned()
    };
    let jobs = [
        ("stdout_ansi", json!({})),
        ("log_huge_line", json!({"mib": 1})),
        ("log_huge_line", json!({"mib": 10})),
        ("log_fields", json!({})),
    ];
    jobs.map(run).to_vec()
}

/// All pages, with names for their pictures.
fn pages(filled: &Filled) -> Vec<(String, String)> {
    let Filled {
        failed,
        sleeps,
        logs,
        waits,
        batch,
        hostile,
    } = filled;
    let fixed = [
        ("overview", "/"),
        ("jobs", "/jobs"),
        ("jobs-discarded", "/jobs?q=state:discarded"),
        ("jobs-wrong", "/jobs?q=colour:red"),
        ("jobs-words", "/jobs?q=owned+attr.n:0"),
        ("batches", "/batches"),
        ("queues", "/queues"),
        ("limits", "/limits"),
        ("limit", "/limits/by-customer"),
        ("schedules", "/schedules"),
        ("schedule", "/schedules/nightly"),
        ("handlers", "/handlers"),
        ("handler", "/handlers/fail"),
        ("components", "/components"),
        ("component", "/components/basics"),
        ("executors", "/executors"),
        ("nodes", "/nodes"),
        ("overview-day", "/?span=day"),
        ("overview-week", "/?span=week"),
        ("failures", "/failures"),
        ("find", "/find?q=e"),
        ("tokens", "/tokens"),
        ("audit", "/audit"),
        ("missing", "/jobs/00000000"),
    ];
    let mut pages: Vec<_> = fixed
        .map(|(name, path)| (name.to_owned(), path.to_owned()))
        .to_vec();
    let mut add = |name: &str, path: String| pages.push((name.to_owned(), path));
    add("job-failed", format!("/jobs/{failed}"));
    add("job-running", format!("/jobs/{sleeps}"));
    add("job-completed", format!("/jobs/{logs}"));
    add("job-waiting", format!("/jobs/{waits}"));
    add("job-live", format!("/jobs/{sleeps}?live=on"));
    add("handler-again", format!("/handlers/fail?job={failed}"));
    add("batch", format!("/batches/{batch}"));
    for (n, job) in hostile.iter().enumerate() {
        add(&format!("job-hostile-{n}"), format!("/jobs/{job}"));
    }
    pages
}

/// Returns the folder for pictures of pages, which is kept.
fn pictures() -> PathBuf {
    let folder = guests::folder().with_file_name("dashboard");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// What examines pages.
pub(crate) struct Examiner {
    axe: String,
}

impl Examiner {
    pub(crate) fn new() -> Self {
        let axe = std::fs::read_to_string(peers::axe().join(AXE)).unwrap();
        Self { axe }
    }

    /// Examines the page that is open, by day and by night: keeps pictures of it under a name, and checks that it is
    /// accessible, that no text has become markup and that it is not wider than the window.
    pub(crate) fn examine(&self, browser: &mut Browser, name: &str) {
        for look in ["light", "dark"] {
            browser.dark(look == "dark");
            let picture = pictures().join(format!("{name}-{look}.png"));
            std::fs::write(picture, browser.picture(true)).unwrap();
            browser.evaluate(&format!("{}; 0", self.axe));
            let found = browser.evaluate(
                "axe.run({ resultTypes: ['violations'] }).then((all) => all.violations
                    .filter((it) => ['serious', 'critical'].includes(it.impact))
                    .map((it) => [it.id, it.help, it.nodes.slice(0, 3).map((node) => node.html)]))",
            );
            assert_eq!(found, json!([]), "{name}, {look}");
        }
        let markup = "document.querySelectorAll('script:not([src]), img[src=x], h1 ~ h1').length";
        assert_eq!(browser.evaluate(markup), 0, "{name}");
        let title = browser.evaluate("document.title");
        assert!(
            title.as_str().unwrap().ends_with("· host"),
            "{name}: {title}"
        );
        // Long texts scroll or wrap in their place; the page itself never becomes wider than the window.
        let wide = "document.documentElement.scrollWidth - window.innerWidth";
        assert!(
            browser.evaluate(wide).as_i64() <= Some(0),
            "{name} is too wide"
        );
    }
}

#[test]
fn every_page_is_accessible_by_day_and_by_night_and_shows_hostile_texts_as_text() {
    let mut desk = Desk::with_a_runner();
    let pages = pages(&fill(&desk));
    let examiner = Examiner::new();
    for (name, path) in &pages {
        desk.browser.open(path);
        examiner.examine(&mut desk.browser, name);
    }
    desk.browser.assert_content();
}

/// Pages that come after a button.
#[test]
fn questions_and_answers_are_accessible_by_day_and_by_night() {
    let mut desk = Desk::new();
    let Filled { failed, .. } = fill(&desk);
    let examiner = Examiner::new();
    let browser = &mut desk.browser;
    let mut after = |name: &str, path: &str, buttons: &[&str]| {
        browser.open(path);
        for button in buttons {
            if button.ends_with(" all…") {
                browser.press("", "All that match…");
            }
            browser.click(button);
        }
        examiner.examine(browser, name);
    };
    after("sure-purge", &format!("/jobs/{failed}"), &["Purge…"]);
    after("sure-all", "/jobs?q=queue:nightly", &["Cancel all…"]);
    after("sure-remove", "/schedules/nightly", &["Remove…"]);
    after("sure-drain", "/nodes", &["Drain…"]);
    after(
        "changed",
        "/jobs?q=queue:nightly",
        &["Purge all…", "Purge 1 job"],
    );
    browser.open("/tokens");
    browser.fill("Name", "phone");
    browser.click("Create");
    examiner.examine(browser, "token-made");
    browser.open("/components");
    browser.fill("Component", "csv");
    browser.upload("File", &guests::component("csv-summary"));
    let folder = TempDir::new().unwrap();
    let manifest = folder.path().join("manifest.toml");
    std::fs::write(&manifest, "[handlers.csv-summary.state]\nquota_kib = 16\n").unwrap();
    browser.upload("Manifest", &manifest);
    browser.click("Deploy");
    examiner.examine(browser, "deploy-grants");
    browser.upload("File", &guests::component("csv-summary"));
    browser.upload("Manifest", &manifest);
    browser.tick("Accept these grants for this file");
    browser.click("Deploy");
    examiner.examine(browser, "deployed");
    // With scripts, the page of a change in progress replaces itself.
    desk.waiting("many", 0);
    for _ in 0..3 {
        let jobs = vec![json!({"handler": "noop", "queue": "many"}); 700];
        let answer = desk.client.post("/api/v1/jobs", &json!(jobs)).unwrap();
        assert_eq!(answer.status, 201, "{answer:?}");
    }
    let browser = &mut desk.browser;
    browser.take(Hand::WithoutScripts);
    browser.open("/jobs?q=queue:many");
    browser.press("", "All that match…");
    browser.click("Cancel all…");
    browser.fill("Type", "cancel 2100");
    browser.click("Cancel 2,100 jobs");
    browser.sees("2,000 jobs changed of 2,100 so far.");
    browser.take(Hand::Mouse);
    examiner.examine(browser, "changing");
    desk.browser.assert_content();
}

#[test]
fn the_login_is_accessible_by_day_and_by_night() {
    let mut desk = Desk::with_tokens();
    let token = desk.token("phone", "viewer");
    let examiner = Examiner::new();
    let browser = &mut desk.browser;
    browser.open("/queues");
    examiner.examine(browser, "login");
    browser.fill("Token", "hst_wrong");
    browser.click("Log in");
    browser.sees("does not accept that token");
    examiner.examine(browser, "login-wrong");
    browser.fill("Token", &token);
    browser.click("Log in");
    assert_eq!(browser.path(), "/queues");
    examiner.examine(browser, "queues-viewer");
    browser.click("Log out");
    browser.sees("Token");
    browser.assert_content();
}

/// The folder of the README's pictures.
const PICTURES: &str = "../docs";

/// Makes the pictures of the README, and keeps them if `UPDATE_PICTURES` is set: they show times.
#[test]
fn the_pictures_of_the_readme_are_made() {
    let mut desk = Desk::new();
    for (handler, queue, count) in [("echo", "mail", 12), ("log", "reports", 5)] {
        for _ in 0..count {
            let job = json!({"handler": handler, "params": {"lines": 3}, "queue": queue});
            desk.client.run(&job);
        }
    }
    let failed = desk.fail("reports", "no customer has the number 4711");
    desk.waiting("nightly", 4);
    desk.sleep("mail");
    desk.browser.resize(1_440);
    for (name, page, text) in [
        (
            "dashboard.png",
            "/".to_owned(),
            "nightly is paused with 4 jobs waiting",
        ),
        (
            "dashboard-job.png",
            format!("/jobs/{failed}"),
            "no customer",
        ),
    ] {
        desk.browser.open(&page);
        desk.browser.sees(text);
        let picture = desk.browser.picture(false);
        assert!(picture.starts_with(b"\x89PNG") && picture.len() < 200 << 10);
        std::fs::write(pictures().join(name), &picture).unwrap();
        if std::env::var_os("UPDATE_PICTURES").is_some() {
            let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(PICTURES);
            std::fs::write(folder.join(name), &picture).unwrap();
        }
    }
    desk.browser.assert_content();
}

#[test]
fn paper_has_no_more_than_what_it_needs() {
    let mut desk = Desk::with_a_runner();
    let pages = pages(&fill(&desk));
    desk.browser.print();
    let shown = "['header', '.side', 'footer', '.bar'].map((it) => document.querySelector(it)?.checkVisibility())";
    for (name, path) in &pages {
        desk.browser.open(path);
        let value = desk.browser.evaluate(shown);
        let shown = value.as_array().unwrap();
        assert!(!shown.contains(&json!(true)), "{name}: {shown:?}");
    }
    desk.browser.assert_content();
}

/// The widths of a phone, a tablet, two laptops and a large screen.
const WIDTHS: [u32; 5] = [390, 800, 1_280, 1_440, 2_560];

#[test]
fn nothing_is_cut_wrapped_or_overlapping_at_any_width() {
    let mut desk = Desk::with_a_runner();
    let pages = pages(&fill(&desk));
    let browser = &mut desk.browser;
    let mut flawed = Vec::new();
    for width in WIDTHS {
        browser.resize(width);
        for (name, path) in &pages {
            browser.open(path);
            for look in ["light", "dark"] {
                browser.dark(look == "dark");
                let picture = pictures().join(format!("{name}-{width}-{look}.png"));
                std::fs::write(picture, browser.picture(false)).unwrap();
            }
            let flaws = browser.layout_flaws();
            if flaws != json!([]) {
                flawed.push(format!("{name}, {width}: {flaws}"));
            }
        }
    }
    assert!(flawed.is_empty(), "{}", flawed.join("\n"));
    browser.assert_content();
}
