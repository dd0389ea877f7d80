//! The parts of all pages: the frame around them, their headers, and the page that says what went wrong.

use std::sync::Arc;

use askama::Template;
use axum::http::StatusCode;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::response::{IntoResponse, Response};
use host_api::queue::QueueView;
use host_core::access::Principal;
use host_core::job::{STATES, State};
use host_core::time::Time;
use host_engine::token::TokenId;

use crate::format::{ago, cut};
use crate::same::{Command, curl};

pub(crate) use host_core::access::Verb;

/// Nothing but our own files, and forms and questions to ourselves: no script in a page, no frame, no other host.
const POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// A page that every page links to.
pub(crate) struct Section {
    pub(crate) address: &'static str,
    pub(crate) name: &'static str,
    /// Whether it is also for principals that may use only some queues and handlers.
    is_scoped: bool,
    /// What it shows is for those who may do this.
    verb: Verb,
}

/// All sections, by group.
const GROUPS: &[(&str, &[Section])] = &[
    (
        "Work",
        &[
            section("/", "Overview", true, Verb::Read),
            section("/jobs", "Jobs", true, Verb::Read),
            section("/failures", "Failures", true, Verb::ReadPayload),
            section("/batches", "Batches", true, Verb::Read),
            section("/schedules", "Schedules", true, Verb::Read),
        ],
    ),
    (
        "Code",
        &[
            section("/handlers", "Handlers", true, Verb::Read),
            section("/components", "Components", false, Verb::Read),
        ],
    ),
    (
        "Flow",
        &[
            section("/queues", "Queues", true, Verb::Read),
            section("/limits", "Limits", false, Verb::Read),
        ],
    ),
    (
        "System",
        &[
            section("/nodes", "Nodes", false, Verb::Read),
            section("/executors", "Executors", false, Verb::Read),
            section("/tokens", "Tokens", true, Verb::Tokens),
            section("/audit", "Audit", false, Verb::Audit),
        ],
    ),
];

const fn section(
    address: &'static str,
    name: &'static str,
    is_scoped: bool,
    verb: Verb,
) -> Section {
    Section {
        address,
        name,
        is_scoped,
        verb,
    }
}

/// Returns whether a path is that of a section.
pub(crate) fn is_section(path: &str) -> bool {
    let mut sections = GROUPS.iter().flat_map(|(_, sections)| *sections);
    sections.any(|section| section.address == path)
}

/// What the frame counts beside its sections, in the queues that the caller may see.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    queues: u64,
    /// Jobs that have not ended.
    open: u64,
    discarded: u64,
}

impl Counts {
    pub(crate) fn sum(queues: &[QueueView]) -> Self {
        let open = STATES.into_iter().filter(|state| !state.is_terminal());
        let of = |state: State| queues.iter().map(|it| it.count(state)).sum::<u64>();
        Self {
            queues: queues.len() as u64,
            open: open.map(of).sum(),
            discarded: of(State::Discarded),
        }
    }
}

/// The frame of a page.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) title: String,
    /// Who looks at it; `None` for anyone.
    pub(crate) who: Option<Arc<Principal>>,
    pub(crate) counts: Counts,
    /// When the page was asked for.
    pub(crate) now: Time,
    /// The section it belongs to.
    pub(crate) section: &'static str,
    /// How often it is loaded again where scripts do not run, in seconds, if that is wanted.
    pub(crate) reload_seconds: Option<u32>,
    /// The address of the events that change it, which scripts follow unless the user has turned that off.
    pub(crate) events: String,
    /// Its address, for the link that turns reloading on or off.
    pub(crate) reload_link: String,
    /// The scheme and the host in the address of the page.
    pub(crate) origin: String,
    /// The line for a shell that shows the same.
    pub(crate) command: String,
    /// The one with curl.
    pub(crate) curl: String,
    /// The address at which the API answers the same, without its origin.
    pub(crate) api: String,
    /// The address of the rest of what it lists.
    pub(crate) next: Option<String>,
}

impl Frame {
    pub(crate) fn new(title: impl Into<String>, section: &'static str) -> Self {
        Self {
            title: title.into(),
            who: None,
            counts: Counts::default(),
            now: Time(0),
            section,
            reload_seconds: None,
            events: String::new(),
            reload_link: String::new(),
            origin: String::new(),
            command: String::new(),
            curl: String::new(),
            api: String::new(),
            next: None,
        }
    }

    /// Returns whether the caller may do this somewhere.
    pub(crate) fn may(&self, verb: Verb) -> bool {
        let who = self.who.as_ref();
        who.is_none_or(|who| who.verbs.has(verb))
    }

    /// Returns the name of the token whose holder looks at it, or its id.
    pub(crate) fn token(&self) -> Option<String> {
        let who = self.who.as_ref()?;
        let id = TokenId::of_principal(who)?;
        Some(who.label.clone().unwrap_or_else(|| String::from(id)))
    }

    /// Returns the groups with the sections that the caller may see.
    pub(crate) fn groups(&self) -> Vec<(&'static str, Vec<&'static Section>)> {
        let has_all = self.who.as_ref().is_none_or(|who| who.scope.is_all());
        let may_see = |it: &&Section| (has_all || it.is_scoped) && self.may(it.verb);
        let groups = GROUPS.iter();
        groups
            .map(|(name, sections)| (*name, sections.iter().filter(may_see).collect::<Vec<_>>()))
            .filter(|(_, sections)| !sections.is_empty())
            .collect()
    }

    /// Returns how much a section has, if that is counted and anything is there.
    pub(crate) fn count(&self, section: &Section) -> Option<u64> {
        let count = match section.address {
            "/jobs" => self.counts.open,
            "/failures" => self.counts.discarded,
            "/queues" => self.counts.queues,
            _ => 0,
        };
        (count > 0).then_some(count)
    }

    /// Writes how long ago an instant was.
    pub(crate) fn ago(&self, at: impl AsRef<str>) -> String {
        ago(self.now, at)
    }

    /// Says how to get the same elsewhere.
    pub(crate) fn same_as(mut self, command: impl Into<Command>, api: impl Into<String>) -> Self {
        self.api = api.into();
        self.command = command.into().line(&self.origin);
        self.curl = curl(&self.origin, &self.api, self.token().is_some());
        self
    }

    /// Links to the rest of what the page lists, from the item at `next` on. `address` is that of the page.
    pub(crate) fn followed_by(&self, address: &str, next: Option<usize>) -> Self {
        let mut frame = self.clone();
        frame.next = next.map(|next| format!("{address}?from={next}"));
        frame
    }

    /// Lets the page follow what happens: `what` of it, as parameters. `address` is its address without that, and `is_on`
    /// whether it is loaded again where scripts do not run.
    pub(crate) fn live(mut self, address: &str, is_on: bool, what: &str) -> Self {
        const SECONDS: u32 = 3;
        let joint = if address.contains('?') { '&' } else { '?' };
        self.reload_seconds = is_on.then_some(SECONDS);
        self.events = format!("/live?{what}");
        self.reload_link = if is_on {
            address.to_owned()
        } else {
            format!("{address}{joint}live=on")
        };
        self
    }
}

/// The largest page, in bytes.
pub(crate) const PAGE_BYTES_MAX: usize = 100 << 10;

/// How many rows a page shows at most of a list that the API gives as a whole.
pub(crate) const ROWS_MAX: usize = 100;

/// Answers with a page.
pub(crate) fn show(page: &impl Template) -> Response {
    with_status(StatusCode::OK, page)
}

/// Answers with a page that is not what was asked for.
pub(crate) fn with_status(status: StatusCode, page: &impl Template) -> Response {
    answer(status, page.render().ok())
}

/// Answers with a page of as many items, from the one at `from` on, as it has room for. `page` makes it of these and of
/// the place of the next one, if there are more.
pub(crate) fn show_part<'a, T, P: Template>(
    items: &'a [T],
    from: usize,
    page: impl Fn(&'a [T], Option<usize>) -> P,
) -> Response {
    let items = items.get(from..).unwrap_or_default();
    let mut rows = items.len().min(ROWS_MAX);
    loop {
        let next = (rows < items.len()).then_some(from + rows);
        let text = page(&items[..rows], next).render().ok();
        let is_large = text.as_ref().is_some_and(|it| it.len() > PAGE_BYTES_MAX);
        if !is_large || rows <= 1 {
            return answer(StatusCode::OK, text);
        }
        rows /= 2;
    }
}

fn answer(status: StatusCode, text: Option<String>) -> Response {
    let Some(text) = text else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (CACHE_CONTROL, "no-store"),
        (REFERRER_POLICY, "same-origin"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (status, headers, text).into_response()
}

#[derive(Template)]
#[template(path = "failed.html")]
struct Failed<'a> {
    frame: Frame,
    detail: &'a str,
    next: &'a str,
}

/// The most that is shown of what went wrong, in bytes.
const REFUSAL_BYTES_MAX: usize = 8 << 10;

/// Answers with what went wrong and what to do next. `frame` is that of the caller, if it is known.
pub(crate) fn failed(
    status: StatusCode,
    frame: Option<Frame>,
    title: &str,
    detail: &str,
    next: &str,
) -> Response {
    let title = if title.is_empty() { "Failed" } else { title };
    let mut frame = frame.unwrap_or_else(|| Frame::new("", ""));
    title.clone_into(&mut frame.title);
    let [detail, next] = [detail, next].map(|text| cut(text, REFUSAL_BYTES_MAX).0);
    with_status(
        status,
        &Failed {
            frame,
            detail,
            next,
        },
    )
}

/// A question before a change that cannot be undone.
#[derive(Template)]
#[template(path = "confirm.html")]
pub(crate) struct Confirm {
    pub(crate) frame: Frame,
    /// The consequence.
    pub(crate) question: String,
    pub(crate) samples: Vec<String>,
    /// Where the form goes, and what it sends.
    pub(crate) to: String,
    pub(crate) fields: Vec<(&'static str, String)>,
    /// The text to type, if a click is not enough.
    pub(crate) typed: Option<String>,
    pub(crate) button: String,
    pub(crate) back: String,
}
