//! Changes of jobs: of those that were marked, or of all that match a filter, with a question first.

use askama::Template;
use axum::response::Response;
use host_api::change::{CountView, ManyView, RefusalView};
use host_api::filter::FilterQuery;
use host_api::filter_text::{self, Filter};
use host_api::job::JobView;
use host_api::page::PageView;
use host_api::path;
use host_core::job::{PRIORITY_LAST, State};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::ALL;
use super::jobs::{JOBS_SHOWN, how_many, states, until_now};
use crate::ask::{Ask, Problem};
use crate::filter::{JobListQuery, jobs};
use crate::form::Form;
use crate::format::number;
use crate::page::{Confirm, Frame, show};

/// How many of the jobs are shown before the change.
const SAMPLES: usize = 5;

/// From how many jobs on a click is not enough.
const TYPED_FROM: u64 = 100;

/// How many jobs one request to the API changes.
const JOBS_AT_ONCE: u32 = 500;

/// How many such requests follow each other. Then the page shows the progress, and continues unless the user stops
/// it.
const REQUESTS: u32 = 4;

/// How many refusals of a change are shown.
const REFUSALS_SHOWN: usize = 10;

/// The change that a form requests.
#[derive(Default)]
struct Change {
    action: String,
    /// The filter of the jobs that were shown.
    q: String,
    /// The filter of the list to go back to.
    list: String,
    sure: bool,
    /// The typed text, if a click is not enough.
    typed: String,
    /// The priority to set.
    priority: String,
    /// Whether only the jobs of `ids` are selected.
    is_selection: bool,
    ids: Vec<String>,
    /// How many there were when it began.
    total: u64,
    /// How many were changed before.
    changed: u64,
    /// How many of these were running and were asked to stop.
    stopping: u64,
    /// How many of these have started since they were read, and are not yet found again among those that run.
    started: u64,
    unchanged: u64,
    refused: u64,
    in_other_state: u64,
    /// Where it continues: at the jobs of a state, behind a place.
    state: Option<State>,
    cursor: Option<String>,
    /// Set if it is not to continue.
    stop: bool,
}

impl From<Vec<(String, String)>> for Change {
    fn from(fields: Vec<(String, String)>) -> Self {
        let mut change = Self::default();
        for (name, value) in fields {
            match name.as_str() {
                "action" => change.action = value,
                "q" => change.q = value,
                "list" => change.list = value,
                "sure" => change.sure = value == "true",
                "typed" => change.typed = value,
                "priority" => change.priority = value,
                "selection" => change.is_selection = true,
                "id" => change.ids.push(value),
                "changed" => change.changed = value.parse().unwrap_or_default(),
                "stopping" => change.stopping = value.parse().unwrap_or_default(),
                "started" => change.started = value.parse().unwrap_or_default(),
                "unchanged" => change.unchanged = value.parse().unwrap_or_default(),
                "refused" => change.refused = value.parse().unwrap_or_default(),
                "in_other_state" => change.in_other_state = value.parse().unwrap_or_default(),
                "total" => change.total = value.parse().unwrap_or_default(),
                "state" => change.state = State::from_name(&value),
                "cursor" => change.cursor = Some(value).filter(|cursor| !cursor.is_empty()),
                "stop" => change.stop = true,
                _ => {}
            }
        }
        change
    }
}

/// How the API carries out a change.
struct Action {
    /// The verb, before "12 jobs".
    words: String,
    /// The route for all jobs that match, and that for one.
    routes: [&'static str; 2],
    body: Value,
}

impl Action {
    fn parse(change: &Change) -> Result<Self, Problem> {
        let (words, routes) = match change.action.as_str() {
            "retry" => ("Retry", [path::JOBS_RETRY, path::JOB_RETRY]),
            "cancel" => ("Cancel", [path::JOBS_CANCEL, path::JOB_CANCEL]),
            "purge" => ("Purge", [path::JOBS_PURGE, path::JOB_PURGE]),
            "priority" => return Self::set_priority(&change.priority),
            other => return Err(wrong(format!("`{other}` is not a change of jobs"))),
        };
        let (words, body) = (words.to_owned(), json!({}));
        Ok(Self {
            words,
            routes,
            body,
        })
    }

    fn set_priority(text: &str) -> Result<Self, Problem> {
        let read = text.trim().parse::<u8>().ok();
        let priority = read.filter(|read| *read <= PRIORITY_LAST);
        let wanted = || wrong(format!("priority must be 0–{PRIORITY_LAST}, got `{text}`"));
        let priority = priority.ok_or_else(wanted)?;
        Ok(Self {
            words: format!("Set priority {priority} for"),
            routes: [path::JOBS_PRIORITY, path::JOB_PRIORITY],
            body: json!({"priority": priority}),
        })
    }
}

#[derive(Template)]
#[template(path = "changed.html")]
struct Page {
    frame: Frame,
    change: Change,
    refusals: Vec<RefusalView>,
    back: String,
}

pub(crate) async fn change(
    ask: Ask,
    Form(fields): Form<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    let mut change = Change::from(fields);
    let action = Action::parse(&change)?;
    if change.is_selection {
        return selected(&ask, change, &action).await;
    }
    let parsed = JobListQuery::new(&change.q)
        .filter(ask.now)
        .map_err(wrong)?;
    let filter = until_now(&ask, parsed);
    change.q = filter_text::write(&filter);
    let states = states(&change.action, filter.state);
    let Some(first) = states.first() else {
        let state = filter.state.map_or("such", State::as_str);
        let detail = format!("{state} jobs cannot be changed this way");
        return Err(wrong(detail));
    };
    if change.stop {
        return Ok(show(&Page::new(&ask, change)));
    }
    // Only the first request of a change needs a confirmation; the others continue it.
    if change.state.is_none() || !change.sure {
        let matching = Matching::count(&ask, &filter, &states).await?;
        if matching.states.is_empty() {
            let states = states
                .iter()
                .map(|state| state.as_str())
                .collect::<Vec<_>>()
                .join(", ");
            return Err(wrong(format!(
                "no job that matches is in one of these states: {states}"
            )));
        }
        let is_agreed = !matching.is_many() || change.typed.trim() == matching.typed(&change);
        if !change.sure || !is_agreed {
            let first = if change.sure {
                "The typed text does not match. "
            } else {
                ""
            };
            return confirm(&ask, &change, &action, &filter, &matching, first).await;
        }
        change.total = matching.jobs;
    }
    let from = change.state.take().unwrap_or(*first);
    let cursor = change.cursor.take();
    let mut done = Page::new(&ask, change);
    let left = states.into_iter().skip_while(|state| *state != from);
    done.go_on(&ask, &action, &filter, left, cursor).await?;
    Ok(show(&done))
}

/// The jobs that match and that a change can change.
struct Matching {
    jobs: u64,
    is_complete: bool,
    /// How many there are of each state that has some.
    states: Vec<(State, CountView)>,
}

impl Matching {
    async fn count(ask: &Ask, filter: &Filter, states: &[State]) -> Result<Self, Problem> {
        let mut counts = Vec::new();
        for state in states {
            let query = FilterQuery::new(&of_state(filter, *state));
            let count: CountView = ask.get(path::JOBS_COUNT, &query).await?;
            counts.push((*state, count));
        }
        counts.retain(|(_, count)| count.jobs > 0 || !count.complete);
        Ok(Self {
            jobs: counts.iter().map(|(_, count)| count.jobs).sum(),
            is_complete: counts.iter().all(|(_, count)| count.complete),
            states: counts,
        })
    }

    /// Says how many there are of each state, unless the filter has one.
    fn by_state(&self, filter: &Filter) -> String {
        if filter.state.is_some() {
            return String::new();
        }
        let counts = self.states.iter().map(|(state, count)| {
            let least = if count.complete { "" } else { "at least " };
            format!("{least}{} {}", number(count.jobs), state.as_str())
        });
        let each = counts.collect::<Vec<_>>().join(", ");
        format!(" {each}; jobs in other states stay as they are.")
    }

    /// Returns whether a click is not enough.
    fn is_many(&self) -> bool {
        self.jobs > TYPED_FROM || !self.is_complete
    }

    fn typed(&self, change: &Change) -> String {
        format!("{} {}", change.action, self.jobs)
    }
}

fn of_state(filter: &Filter, state: State) -> Filter {
    Filter {
        state: Some(state),
        ..filter.clone()
    }
}

/// Changes the jobs that were marked on a page.
async fn selected(ask: &Ask, change: Change, action: &Action) -> Result<Response, Problem> {
    if change.ids.is_empty() {
        return Err(wrong("no job is selected".to_owned()));
    }
    if change.ids.len() > JOBS_SHOWN as usize {
        let selected = change.ids.len();
        return Err(wrong(format!(
            "at most {JOBS_SHOWN} jobs can be selected, got {selected}"
        )));
    }
    if !change.sure {
        let those = how_many(change.ids.len() as u64, true);
        let mut fields = vec![
            ("action", change.action),
            ("priority", change.priority),
            ("list", change.list.clone()),
            ("selection", "true".to_owned()),
        ];
        fields.extend(change.ids.iter().map(|id| ("id", id.clone())));
        return Ok(show(&Confirm {
            frame: ask.frame(format!("{} {those}?", action.words), "/jobs"),
            question: format!("{} {those}?", action.words),
            samples: change.ids,
            to: "/jobs/change".to_owned(),
            fields,
            typed: None,
            button: format!("{} {those}", action.words),
            back: jobs(&change.list),
        }));
    }
    let mut done = Page::new(ask, change);
    for id in std::mem::take(&mut done.change.ids) {
        let route = path::with_name(action.routes[1], &id);
        let changed: Result<IgnoredAny, Problem> = ask.post(&route, &ALL, &action.body).await;
        match changed {
            Ok(_) => done.change.changed += 1,
            Err(problem) if problem.status.is_client_error() => {
                done.change.refused += 1;
                let Problem { code, detail, .. } = problem;
                done.refusals.push(RefusalView { id, code, detail });
            }
            Err(problem) => return Err(problem),
        }
    }
    Ok(show(&done))
}

impl Page {
    fn new(ask: &Ask, change: Change) -> Self {
        Self {
            frame: ask.frame("Changed jobs", "/jobs"),
            refusals: Vec::new(),
            back: jobs(&change.list),
            change,
        }
    }

    /// Changes jobs of these states, those of the first behind a place, as many as one page may.
    async fn go_on(
        &mut self,
        ask: &Ask,
        action: &Action,
        filter: &Filter,
        states: impl Iterator<Item = State>,
        mut cursor: Option<String>,
    ) -> Result<(), Problem> {
        let mut requests = 0;
        for state in states {
            loop {
                if requests >= REQUESTS {
                    (self.change.state, self.change.cursor) = (Some(state), cursor);
                    return Ok(());
                }
                let query = FilterQuery {
                    limit: Some(JOBS_AT_ONCE),
                    cursor: cursor.take(),
                    ..FilterQuery::new(&of_state(filter, state))
                };
                let mut many: ManyView = ask.post(action.routes[0], &query, &action.body).await?;
                many.leave_out_started(Some(state), &mut self.change.started);
                // States without such jobs cost nothing.
                requests += u32::from(many.matched > 0 || many.next_cursor.is_some());
                self.change.changed += many.changed;
                self.change.stopping += many.stopping;
                self.change.unchanged += many.unchanged;
                self.change.refused += many.refused;
                self.change.in_other_state += many.in_other_state;
                self.refusals.extend(many.refusals);
                self.refusals.truncate(REFUSALS_SHOWN);
                cursor = many.next_cursor;
                if cursor.is_none() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Returns how many jobs it has come to, which may be more than there were when it began.
    fn passed(&self) -> u64 {
        self.change.changed + self.change.unchanged + self.change.refused
    }

    fn changed(&self) -> String {
        how_many(self.change.changed, true)
    }
}

fn wrong(detail: String) -> Problem {
    Problem::bad_request(
        "Nothing was changed",
        detail,
        "Go back and choose other jobs.",
    )
}

async fn confirm(
    ask: &Ask,
    change: &Change,
    action: &Action,
    filter: &Filter,
    matching: &Matching,
    first: &str,
) -> Result<Response, Problem> {
    let mut samples = Vec::new();
    for (state, _) in &matching.states {
        let room = SAMPLES.saturating_sub(samples.len());
        if room == 0 {
            break;
        }
        let query = FilterQuery {
            limit: u32::try_from(room).ok(),
            ..FilterQuery::new(&of_state(filter, *state))
        };
        let page: PageView<JobView> = ask.get(path::JOBS, &query).await?;
        let shown = |job: JobView| format!("{} {} in {}", job.id, job.handler, job.queue);
        samples.extend(page.items.into_iter().map(shown));
    }
    let (words, those) = (&action.words, how_many(matching.jobs, matching.is_complete));
    let verb = if matching.jobs == 1 {
        "matches"
    } else {
        "match"
    };
    let confirm = Confirm {
        frame: ask.frame(format!("{words} {those}?"), "/jobs"),
        question: format!(
            "{first}{words} {those} that {verb} `{}`?{}",
            change.q,
            matching.by_state(filter)
        ),
        samples,
        to: "/jobs/change".to_owned(),
        fields: vec![
            ("action", change.action.clone()),
            ("priority", change.priority.clone()),
            ("q", change.q.clone()),
            ("list", change.list.clone()),
        ],
        typed: matching.is_many().then(|| matching.typed(change)),
        button: format!("{words} {those}"),
        back: jobs(&change.list),
    };
    Ok(show(&confirm))
}
