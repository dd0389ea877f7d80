//! What the attempts of a job asked of HTTP servers, as `host job show` prints it.

use std::borrow::Cow;

use host_api::attempt::AttemptView;
use host_api::client::Item;
use host_console::table::{Cell, Column, Rows};
use host_console::{human, plain};

/// Returns a row for each request that is recorded. `None` if there are none.
pub(super) fn rows(attempts: &[Item<AttemptView>]) -> Option<Rows> {
    let mut rows = Rows::new(&[
        Column::Right("ATTEMPT"),
        Column::Right("AT"),
        Column::Left("REQUEST"),
        Column::Left("PATH PATTERN"),
        Column::Left("ANSWER"),
        Column::Right("TOOK"),
        Column::Right("SENT"),
        Column::Right("RECEIVED"),
    ]);
    let mut is_empty = true;
    for Item { view: attempt, .. } in attempts {
        for request in attempt.requests.iter().flat_map(|it| &it.first) {
            is_empty = false;
            let (method, origin) = (
                or_dash(request.method.as_deref()),
                or_dash(request.origin.as_deref()),
            );
            let answer = request.status.map(|status| status.to_string());
            rows.row(vec![
                Cell::new(attempt.number),
                Cell::new(human::took(request.at_ms)),
                Cell::new(format!("{method} {origin}").trim()),
                Cell::new(or_dash(request.path_pattern.as_deref())),
                Cell::new(answer.unwrap_or_else(|| or_dash(request.error.as_deref()).into_owned())),
                Cell::new(format!("{:.1} ms", request.duration_ms)),
                Cell::new(human::bytes(request.sent_bytes)),
                Cell::new(human::bytes(request.received_bytes)),
            ]);
        }
    }
    (!is_empty).then_some(rows)
}

fn or_dash(text: Option<&str>) -> Cow<'_, str> {
    plain::line(text.unwrap_or_default())
}

/// Returns a line for each attempt with more requests than are recorded.
pub(super) fn more(attempts: &[Item<AttemptView>]) -> impl Iterator<Item = String> {
    attempts.iter().filter_map(|Item { view: attempt, .. }| {
        let requests = attempt.requests.as_ref()?;
        let first = requests.first.len() as u64;
        (requests.total > first).then(|| {
            format!(
                "attempt {}: the first {first} of {} requests; of all, {} got no answer, {} were sent and {} received",
                attempt.number,
                human::count(requests.total),
                human::count(requests.failed),
                human::bytes(requests.sent_bytes),
                human::bytes(requests.received_bytes),
            )
        })
    })
}
