//! The attempts of a job, drawn to scale from its acceptance to its end.

use host_api::attempt::AttemptView;
use host_api::job::JobView;
use host_core::time::Time;

use crate::format::duration;

/// How wide the drawing is, in its own units.
const WIDTH: u64 = 1_000;

/// The narrowest bar, so that a short attempt is seen.
const BAR_MIN: u64 = 3;

/// One attempt in the drawing.
pub(crate) struct Bar {
    pub(crate) x: u64,
    pub(crate) width: u64,
    pub(crate) outcome: String,
    /// What a pointer on it shows.
    pub(crate) text: String,
}

/// Draws the attempts. Between them the job waited.
pub(crate) fn draw(now: Time, job: &JobView, attempts: &[AttemptView]) -> Vec<Bar> {
    let at = |text: &str| Time::parse_rfc3339(text);
    let Some(begin) = at(&job.enqueued_at) else {
        return Vec::new();
    };
    let end = job.finished_at.as_deref().and_then(at).unwrap_or(now);
    let whole_ms = end.since_ms(begin).max(1);
    let place = |instant: Time| {
        let share = u128::from(instant.since_ms(begin).min(whole_ms)) * u128::from(WIDTH);
        u64::try_from(share / u128::from(whole_ms)).unwrap_or(WIDTH)
    };
    let bars = attempts.iter().filter_map(|attempt| {
        let from = at(&attempt.started_at)?;
        let to = attempt.finished_at.as_deref().and_then(at).unwrap_or(end);
        let x = place(from).min(WIDTH - BAR_MIN);
        let width = place(to).saturating_sub(x).max(BAR_MIN);
        let (number, outcome) = (attempt.number, &attempt.outcome);
        let took = duration(to.since_ms(from));
        Some(Bar {
            x,
            width,
            outcome: outcome.clone(),
            text: format!(
                "attempt {number}: {outcome}, {took} on {}",
                attempt.executor
            ),
        })
    });
    bars.collect()
}
