//! A person at a page: Debian's Chromium with mouse or keyboard, with or without scripts. Everything that the page
//! asks for or complains about is recorded and checked at the end.

mod protocol;

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use self::protocol::Protocol;
use crate::eventually;

/// Finds elements as people do: by their text and their labels.
const FINDER: &str = include_str!("browser/finder.js");

/// Finds what is wrong with the layout of a page.
const LAYOUT: &str = include_str!("browser/layout.js");

/// Lets a page tell which streams of events it has opened.
const STREAMS: &str = "var streams = []; EventSource = class extends EventSource {
    constructor(address) { super(address); streams.push(this); }
};";

/// Turns the live switch off, as a user may: then only what a test does changes a page.
const STILL: &str = "if (location.protocol === 'http:') localStorage.live ??= 'off';";

/// How long a page may take on a loaded machine.
const BOUND: Duration = Duration::from_mins(3);

/// How often the key Tab is pressed before an element counts as out of reach.
const TABS_MAX: usize = 400;

/// The size of the window, in pixels.
const WIDTH: u32 = 1_180;
const HEIGHT: u32 = 760;

/// How a person uses a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hand {
    Mouse,
    Keyboard,
    /// The mouse, in a browser that runs no scripts.
    WithoutScripts,
}

/// A browser with one tab.
pub struct Browser {
    protocol: Protocol,
    origin: String,
    hand: Hand,
    loads: usize,
    requests: Vec<String>,
    complaints: Vec<String>,
}

impl Browser {
    /// Starts a browser for the pages of the host at `address`.
    ///
    /// # Panics
    ///
    /// If Chromium is not installed or does not start.
    pub fn start(address: &str) -> Self {
        let mut browser = Self {
            protocol: Protocol::start(),
            origin: format!("http://{address}"),
            hand: Hand::Mouse,
            loads: 0,
            requests: Vec::new(),
            complaints: Vec::new(),
        };
        let size =
            json!({"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": false});
        browser.call("Emulation.setDeviceMetricsOverride", &size);
        for domain in ["Page", "Runtime", "Log", "Network", "DOM"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        let kept = json!({"source": STREAMS});
        browser.call("Page.addScriptToEvaluateOnNewDocument", &kept);
        browser
    }

    /// Shows pages as they were loaded, until the test turns the live switch on.
    pub fn stand_still(&mut self) {
        let kept = json!({"source": STILL});
        self.call("Page.addScriptToEvaluateOnNewDocument", &kept);
    }

    /// Continues as another user.
    pub fn take(&mut self, hand: Hand) {
        self.hand = hand;
        let off = json!({"value": hand == Hand::WithoutScripts});
        self.call("Emulation.setScriptExecutionDisabled", &off);
    }

    /// Returns the origin of the host's pages.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Returns whether pages may run scripts.
    pub fn runs_scripts(&self) -> bool {
        self.hand != Hand::WithoutScripts
    }

    /// Opens a page.
    ///
    /// # Panics
    ///
    /// If it does not load.
    pub fn open(&mut self, path: &str) {
        let before = self.loads;
        let url = format!("{}{path}", self.origin);
        let answer = self.call("Page.navigate", &json!({"url": url}));
        assert_eq!(answer["errorText"], Value::Null, "{path}");
        // An anchor of the page that is open loads nothing.
        if answer.get("loaderId").is_some() {
            self.loaded(before, path);
        }
    }

    /// Follows a link or presses a button, named by its text, and waits for the page that comes.
    pub fn click(&mut self, name: &str) {
        self.click_in("", name);
    }

    /// The same in the row, item or section with a text.
    pub fn click_in(&mut self, place: &str, name: &str) {
        let before = self.loads;
        self.press(place, name);
        self.loaded(before, name);
    }

    /// Presses what changes this page only.
    pub fn press(&mut self, place: &str, name: &str) {
        self.reach(
            &format!("finder.act({}, {})", json!(place), json!(name)),
            name,
        );
        if self.hand == Hand::Keyboard {
            self.key("Enter", 13, "\r");
        } else {
            let at = self.evaluate("finder.place()");
            for kind in ["mousePressed", "mouseReleased"] {
                let event = json!({"type": kind, "x": at["x"], "y": at["y"], "button": "left", "clickCount": 1});
                self.call("Input.dispatchMouseEvent", &event);
            }
        }
    }

    /// Puts a text into a field instead of what it has. `label` names the field.
    pub fn fill(&mut self, label: &str, text: &str) {
        self.mark(label);
        if text.is_empty() {
            self.key("Delete", 46, "");
        } else {
            self.call("Input.insertText", &json!({"text": text}));
        }
    }

    /// Puts what was copied into a field instead of what it has.
    pub fn paste(&mut self, label: &str) {
        self.mark(label);
        let paste = json!({"type": "keyDown", "key": "v", "modifiers": 2, "commands": ["paste"]});
        self.call("Input.dispatchKeyEvent", &paste);
    }

    /// Marks what a field has.
    fn mark(&mut self, label: &str) {
        self.reach(&format!("finder.field({})", json!(label)), label);
        if self.hand != Hand::Keyboard {
            self.evaluate("finder.focus()");
        }
        let all = json!({"type": "keyDown", "key": "a", "modifiers": 2, "commands": ["selectAll"]});
        self.call("Input.dispatchKeyEvent", &all);
    }

    /// Chooses the entry of a list that begins with a character.
    pub fn choose(&mut self, label: &str, entry: char) {
        self.reach(&format!("finder.field({})", json!(label)), label);
        if self.hand != Hand::Keyboard {
            self.evaluate("finder.focus()");
        }
        self.key(&entry.to_string(), u32::from(entry), &entry.to_string());
    }

    /// Ticks a box.
    pub fn tick(&mut self, label: &str) {
        self.reach(&format!("finder.field({})", json!(label)), label);
        if self.hand == Hand::Keyboard {
            self.key(" ", 32, " ");
        } else {
            self.evaluate("finder.focus()");
            self.key(" ", 32, " ");
        }
    }

    /// Presses Enter where the person is, which sends a form.
    pub fn enter(&mut self) {
        let before = self.loads;
        self.key("Enter", 13, "\r");
        self.loaded(before, "Enter");
    }

    /// Chooses a file, as in the window of the system that a test does not see.
    pub fn upload(&mut self, label: &str, file: &Path) {
        let script = format!("{FINDER}; finder.field({})", json!(label));
        let found = self.call("Runtime.evaluate", &json!({"expression": script}));
        let object = &found["result"]["objectId"];
        let files = json!({"files": [file], "objectId": object});
        self.call("DOM.setFileInputFiles", &files);
    }

    /// Returns the text of the page as it is seen.
    pub fn text(&mut self) -> String {
        let text = self.evaluate("document.body?.innerText");
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the page shows a text, and fails with the page if it never does.
    ///
    /// # Panics
    ///
    /// If it does not.
    pub fn sees(&mut self, text: &str) {
        let mut shown = String::new();
        let found = eventually_or(BOUND, || {
            shown = self.text();
            shown.contains(text)
        });
        let (hand, path) = (self.hand, self.path());
        assert!(found, "{hand:?}: no {text:?} on {path}:\n{shown}");
    }

    /// # Panics
    ///
    /// If the page shows a text.
    pub fn sees_no(&mut self, text: &str) {
        let shown = self.text();
        assert!(
            !shown.contains(text),
            "{text:?} on {}:\n{shown}",
            self.path()
        );
    }

    /// Returns what stands behind the origin in the address.
    pub fn path(&mut self) -> String {
        let location = self.evaluate("location.href");
        let href = location.as_str().unwrap_or_default();
        href.strip_prefix(&self.origin).unwrap_or(href).to_owned()
    }

    /// Returns the value of an expression of the page's scripts; `finder` finds elements.
    ///
    /// # Panics
    ///
    /// If it throws.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let mut value = Value::Null;
        eventually("the page to answer", BOUND, || {
            let asked = json!({
                "expression": format!("{FINDER}; {expression}"), "returnByValue": true, "awaitPromise": true,
            });
            // The page may be replaced at any time; then the next one answers.
            let answer = self.ask("Runtime.evaluate", &asked).ok()?;
            assert!(
                answer.get("exceptionDetails").is_none(),
                "{expression}: {answer}\n{}",
                self.complaints.join("\n")
            );
            value = answer["result"]["value"].clone();
            Some(())
        });
        value
    }

    /// Shows pages as by day or as by night.
    pub fn dark(&mut self, is_dark: bool) {
        let value = if is_dark { "dark" } else { "light" };
        let features =
            json!({"media": "", "features": [{"name": "prefers-color-scheme", "value": value}]});
        self.call("Emulation.setEmulatedMedia", &features);
    }

    /// Shows pages as they are printed.
    pub fn print(&mut self) {
        self.call("Emulation.setEmulatedMedia", &json!({"media": "print"}));
    }

    /// Puts another tab over the page, or takes it away. (A browser without windows has none to cover.)
    pub fn cover(&mut self, is_covered: bool) {
        self.evaluate(&format!(
            "Object.defineProperty(document, 'hidden', {{ value: {is_covered}, configurable: true }});
             document.dispatchEvent(new Event('visibilitychange'))"
        ));
    }

    /// Returns how many requests pages have made, and how many streams of events the page has open.
    pub fn traffic(&mut self) -> (usize, u64) {
        let script = "streams.filter((it) => it.readyState !== EventSource.CLOSED).length";
        let open = self.evaluate(script).as_u64().unwrap_or_default();
        (self.requests.len(), open)
    }

    /// Makes the window this wide: 390 pixels are a phone.
    pub fn resize(&mut self, width: u32) {
        let is_phone = width < 500;
        let size =
            json!({"width": width, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": is_phone});
        self.call("Emulation.setDeviceMetricsOverride", &size);
    }

    /// Returns what is too wide, wrapped, cut or overlaps something else on the page.
    pub fn layout_flaws(&mut self) -> Value {
        self.evaluate(LAYOUT)
    }

    /// Returns a picture of the page as PNG: all of it, or its first window.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn picture(&mut self, whole: bool) -> Vec<u8> {
        let asked = json!({"format": "png", "captureBeyondViewport": whole});
        let answer = self.call("Page.captureScreenshot", &asked);
        let data = answer["data"].as_str().unwrap_or_default();
        BASE64_STANDARD.decode(data).expect("a picture is base64")
    }

    /// Checks that nothing left the host and that the browser had nothing to complain about.
    ///
    /// # Panics
    ///
    /// If it had.
    pub fn assert_content(&mut self) {
        let origin = format!("{}/", self.origin);
        let is_elsewhere = |url: &&String| !url.starts_with(&origin) && *url != "about:blank";
        let elsewhere: Vec<_> = self.requests.iter().filter(is_elsewhere).collect();
        assert!(elsewhere.is_empty(), "requests to elsewhere: {elsewhere:?}");
        assert!(!self.requests.is_empty(), "requests are seen");
        assert!(self.complaints.is_empty(), "{}", self.complaints.join("\n"));
    }

    /// Brings the person to the element that an expression finds: with the keyboard, by the key Tab.
    fn reach(&mut self, expression: &str, name: &str) {
        let found = self.evaluate(&format!("!!{expression}"));
        assert_eq!(
            found,
            true,
            "no {name:?} on {}:\n{}",
            self.path(),
            self.text()
        );
        if self.hand != Hand::Keyboard {
            return;
        }
        for _ in 0..TABS_MAX {
            if self.evaluate("finder.is_focused()") == true {
                return;
            }
            self.key("Tab", 9, "");
        }
        panic!("the key Tab does not lead to {name:?} on {}", self.path());
    }

    /// Presses a key, known by its name and code, which may type a text.
    pub fn key(&mut self, key: &str, code: u32, text: &str) {
        let mut event =
            json!({"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": code});
        if !text.is_empty() {
            event["text"] = json!(text);
        }
        self.call("Input.dispatchKeyEvent", &event);
        let up = json!({"type": "keyUp", "key": key, "code": key, "windowsVirtualKeyCode": code});
        self.call("Input.dispatchKeyEvent", &up);
    }

    /// Waits until another page has loaded.
    fn loaded(&mut self, before: usize, what: &str) {
        while self.loads <= before {
            let Some(event) = self.protocol.event(BOUND) else {
                let (hand, path) = (self.hand, self.path());
                panic!("{hand:?}: no page came after {what:?} on {path}");
            };
            self.note(&event);
        }
    }

    fn call(&mut self, method: &str, params: &Value) -> Value {
        match self.ask(method, params) {
            Ok(answer) => answer,
            Err(error) => panic!("{method}: {error}"),
        }
    }

    fn ask(&mut self, method: &str, params: &Value) -> Result<Value, Value> {
        let answer = self.protocol.ask(method, params, BOUND);
        while let Some(event) = self.protocol.event(Duration::ZERO) {
            self.note(&event);
        }
        answer
    }

    fn note(&mut self, event: &Value) {
        let params = &event["params"];
        match event["method"].as_str().unwrap_or_default() {
            "Page.loadEventFired" => self.loads += 1,
            "Network.requestWillBeSent" => {
                let url = params["request"]["url"].as_str();
                self.requests.extend(url.map(str::to_owned));
            }
            "Network.responseReceived"
                if params["type"] != "Document"
                    && params["response"]["status"].as_u64() >= Some(400) =>
            {
                self.complaints.push(params["response"].to_string());
            }
            "Runtime.exceptionThrown" => self.complaints.push(params.to_string()),
            "Runtime.consoleAPICalled" if params["type"] == "error" => {
                self.complaints.push(params["args"].to_string());
            }
            // Refusals are pages too; what else cannot be loaded is seen above.
            "Log.entryAdded"
                if params["entry"]["level"] == "error"
                    && params["entry"]["source"] != "network" =>
            {
                self.complaints.push(params["entry"].to_string());
            }
            _ => {}
        }
    }
}

/// Like [`eventually`], for a message that is known only afterwards.
fn eventually_or(bound: Duration, mut check: impl FnMut() -> bool) -> bool {
    let begun = std::time::Instant::now();
    eventually("a page", bound * 2, || {
        let is_so = check();
        (is_so || begun.elapsed() > bound).then_some(is_so)
    })
}
