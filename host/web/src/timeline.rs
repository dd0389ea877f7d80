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

/// One attempt in the drawing, or a pause before one.
pub(crate) struct Bar {
    pub(crate) x: u64,
    pub(crate) width: u64,
    pub(crate) is_pause: bool,
    /// How the attempt ended, or why the job waited.
    pub(crate) class: String,
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

impl Timeline {
    /// Returns whether a pause is seen.
    pub(crate) fn has_pauses(&self) -> bool {
        self.bars.iter().any(|bar| bar.is_pause)
    }
}

/// Where instants are in the drawing.
struct Scale {
    begin: Time,
    whole_ms: u64,
}

impl Scale {
    fn place(&self, instant: Time) -> u64 {
        let ms = instant.since_ms(self.begin).min(self.whole_ms);
        let share = u128::from(ms) * u128::from(WIDTH) / u128::from(self.whole_ms);
        u64::try_from(share).unwrap_or(WIDTH)
    }

    /// Returns where a bar begins and how wide it is.
    fn bar(&self, from: Time, to: Time) -> (u64, u64) {
        let x = self.place(from).min(WIDTH - BAR_MIN);
        (x, self.place(to).saturating_sub(x).max(BAR_MIN))
    }

    fn attempt(&self, attempt: &AttemptView, from: Time, to: Time) -> Bar {
        let (x, width) = self.bar(from, to);
        let (number, outcome) = (attempt.number, &attempt.outcome);
        let took = duration(to.since_ms(from));
        let label = match width {
            OUTCOME_MIN.. => format!("{number} {outcome}, {took}"),
            NUMBER_MIN.. => number.to_string(),
            _ => String::new(),
        };
        Bar {
            label,
            x,
            width,
            is_pause: false,
            class: outcome.clone(),
            text: format!(
                "attempt {number}: {outcome}, {took} on {}",
                attempt.executor
            ),
        }
    }

    /// Draws how long the job waited, if that is seen. `failed` is the number of the attempt before, if it failed: then the
    /// job waited for its backoff, or for a user to retry it.
    fn pause(&self, from: Time, to: Time, failed: Option<u32>) -> Option<Bar> {
        let (x, width) = (
            self.place(from),
            self.place(to).saturating_sub(self.place(from)),
        );
        let took = duration(to.since_ms(from));
        let (class, text) = match failed {
            Some(number) => ("backoff", format!("{took} after attempt {number} failed")),
            None => ("waited", format!("waited {took}")),
        };
        (width > 0).then(|| Bar {
            label: String::new(),
            x,
            width,
            is_pause: true,
            class: class.to_owned(),
            text,
        })
    }
}

/// Draws the attempts, and the pauses before and between them.
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
    let scale = Scale { begin, whole_ms };
    let mut bars = Vec::new();
    // When the job began to wait for the next attempt, and the attempt before if it failed.
    let mut waits = Some((begin, None));
    let mut expected = 1;
    for attempt in attempts {
        let Some(from) = at(&attempt.started_at) else {
            continue;
        };
        // Attempts before the first one may not be shown.
        let pause = waits.take().filter(|_| attempt.number == expected);
        bars.extend(pause.and_then(|(since, failed)| scale.pause(since, from, failed)));
        let ended = attempt.finished_at.as_deref().and_then(at);
        bars.push(scale.attempt(attempt, from, ended.unwrap_or(end)));
        let has_failed = ["failed", "retry"].contains(&attempt.outcome.as_str());
        let failed = Some(attempt.number).filter(|_| has_failed);
        waits = ended.map(|ended| (ended, failed));
        expected = attempt.number + 1;
    }
    // A job that has not ended waits still.
    let pause = waits.filter(|_| job.finished_at.is_none() && expected == job.attempt + 1);
    bars.extend(pause.and_then(|(since, failed)| scale.pause(since, end, failed)));
    Timeline {
        bars,
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
        let mut bars = timeline.bars;
        assert!(bars.iter().all(|bar| bar.x + bar.width <= WIDTH));
        bars.retain(|bar| !bar.is_pause);
        assert_eq!((bars[0].x, bars[0].width), (0, 500));
        assert_eq!(bars[0].label, "1 completed, 15.0 s");
        assert_eq!(bars[1].label, "", "it has no room");
        assert!(bars[1].text.contains("0 ms"), "{}", bars[1].text);
    }

    #[test]
    fn waiting_and_backoff_are_told_apart() {
        let job = json!({"id": "1", "state": "retryable", "handler": "a", "queue": "a", "priority": 5, "attempt": 3,
            "max_attempts": 9, "waited_ms": 0, "ran_ms": 0, "wire": "http", "enqueued_at": "2026-05-17T18:30:00Z"});
        let attempts = json!([
            {"number": 1, "started_at": "2026-05-17T18:30:10Z", "finished_at": "2026-05-17T18:30:20Z", "outcome": "lost"},
            {"number": 2, "started_at": "2026-05-17T18:30:30Z", "finished_at": "2026-05-17T18:30:40Z", "outcome": "failed"},
            {"number": 3, "started_at": "2026-05-17T18:31:00Z", "finished_at": "2026-05-17T18:31:10Z", "outcome": "retry"},
        ]);
        let job: JobView = serde_json::from_value(job).unwrap();
        let attempts: Vec<AttemptView> = serde_json::from_value(attempts).unwrap();
        let now = Time::parse_rfc3339("2026-05-17T18:31:40Z").unwrap();
        let seen = |attempts: &[AttemptView]| {
            let bars = draw(now, &job, attempts.iter()).bars.into_iter();
            let pauses = bars.filter(|bar| bar.is_pause);
            pauses
                .map(|bar| (bar.x, bar.width, bar.class))
                .collect::<Vec<_>>()
        };
        let pause = |x, width, class: &str| (x, width, class.to_owned());
        assert_eq!(
            seen(&attempts),
            [
                pause(0, 100, "waited"),
                pause(200, 100, "waited"),
                pause(400, 200, "backoff"),
                pause(700, 300, "backoff"),
            ]
        );
        // The page may begin behind the first attempts: what was before them is not known.
        assert_eq!(seen(&attempts[2..]), [pause(700, 300, "backoff")]);
        assert_eq!(seen(&attempts[..1]), [pause(0, 100, "waited")]);
        assert_eq!(seen(&[]), []);
    }
}
