//! The attempts of a job, drawn to scale from its acceptance to its end.

use host_api::attempt::AttemptView;
use host_api::job::JobView;
use host_core::time::Time;

use crate::format::{Whole, duration};

/// How wide the drawing is, in its own units.
const WIDTH: u64 = 1_000;

/// The narrowest bar, so that a short attempt is seen.
const BAR_MIN: u64 = 3;

/// From which width on a bar has room for the number of its attempt, and for how it ended.
const NUMBER_MIN: u64 = 30;
const OUTCOME_MIN: u64 = 200;

/// One attempt in the drawing.
pub(crate) struct Bar {
    pub(crate) x: u64,
    pub(crate) width: u64,
    pub(crate) outcome: String,
    /// What a pointer on it shows.
    pub(crate) text: String,
    /// What is written in it.
    pub(crate) label: String,
}

/// Writes a place or a width as a share of the whole, in percent.
pub(crate) fn percent(units: impl Whole) -> String {
    let units = units.whole();
    format!("{}.{}%", units / 10, units % 10)
}

/// The attempts, and the words below them.
#[derive(Default)]
pub(crate) struct Timeline {
    pub(crate) bars: Vec<Bar>,
    /// How long it is.
    pub(crate) whole: String,
}

/// Draws the attempts. Between them the job waited.
pub(crate) fn draw<'a>(
    now: Time,
    job: &JobView,
    attempts: impl Iterator<Item = &'a AttemptView>,
) -> Timeline {
    let at = |text: &str| Time::parse_rfc3339(text);
    let Some(begin) = at(&job.enqueued_at) else {
        return Timeline::default();
    };
    let end = job.finished_at.as_deref().and_then(at).unwrap_or(now);
    let whole_ms = end.since_ms(begin).max(1);
    let place = |instant: Time| {
        let share = u128::from(instant.since_ms(begin).min(whole_ms)) * u128::from(WIDTH);
        u64::try_from(share / u128::from(whole_ms)).unwrap_or(WIDTH)
    };
    let bars = attempts.filter_map(|attempt| {
        let from = at(&attempt.started_at)?;
        let to = attempt.finished_at.as_deref().and_then(at).unwrap_or(end);
        let x = place(from).min(WIDTH - BAR_MIN);
        let width = place(to).saturating_sub(x).max(BAR_MIN);
        let (number, outcome) = (attempt.number, &attempt.outcome);
        let took = duration(to.since_ms(from));
        let label = match width {
            OUTCOME_MIN.. => format!("{number} {outcome}, {took}"),
            NUMBER_MIN.. => number.to_string(),
            _ => String::new(),
        };
        Some(Bar {
            label,
            x,
            width,
            outcome: outcome.clone(),
            text: format!(
                "attempt {number}: {outcome}, {took} on {}",
                attempt.executor
            ),
        })
    });
    Timeline {
        bars: bars.collect(),
        whole: duration(end.since_ms(begin)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Times of nodes whose clocks are apart: an attempt begins before its job was accepted, and ends before it began.
    #[test]
    fn clocks_apart_make_no_negative_times_in_the_timeline() {
        let job = json!({"id": "1", "state": "completed", "handler": "a", "queue": "a", "priority": 5, "attempt": 1,
            "max_attempts": 1, "waited_ms": 0, "ran_ms": 0, "wire": "http",
            "enqueued_at": "2026-05-17T18:30:10Z", "finished_at": "2026-05-17T18:30:20Z"});
        let attempt = |started: &str, finished: &str| {
            json!({"number": 1, "executor": "cell-1", "started_at": started, "finished_at": finished,
                "outcome": "completed", "fuel": 0, "cpu_ms": 0.0, "peak_memory_bytes": 0})
        };
        let attempts = json!([
            attempt("2026-05-17T18:30:00Z", "2026-05-17T18:30:15Z"),
            attempt("2026-05-17T18:30:18Z", "2026-05-17T18:30:12Z"),
            attempt("2026-05-17T18:31:00Z", "2026-05-17T18:32:00Z"),
        ]);
        let job: JobView = serde_json::from_value(job).unwrap();
        let attempts: Vec<AttemptView> = serde_json::from_value(attempts).unwrap();
        let timeline = draw(Time(0), &job, attempts.iter());
        assert_eq!(timeline.whole, "10.0 s");
        let bars = timeline.bars;
        assert!(bars.iter().all(|bar| bar.x + bar.width <= WIDTH));
        assert_eq!((bars[0].x, bars[0].width), (0, 500));
        assert_eq!(bars[0].label, "1 completed, 15.0 s");
        assert_eq!(bars[1].label, "", "it has no room");
        assert!(bars[1].text.contains("0 ms"), "{}", bars[1].text);
    }
}
