//! Lines over time, drawn on the server. Each drawing also says in words what it shows.

use std::fmt::Write as _;

use host_api::trend::{PointView, TrendView};
use host_core::time::Time;

use crate::format::{duration, number};

/// How wide and high a drawing is, in its own units.
const WIDTH: usize = 600;
const HEIGHT: f64 = 100.0;

/// One drawing.
pub(crate) struct Chart {
    pub(crate) title: &'static str,
    pub(crate) lines: Vec<Line>,
}

/// One line of a drawing.
pub(crate) struct Line {
    /// Its class, which is its color.
    pub(crate) class: &'static str,
    pub(crate) label: &'static str,
    /// As SVG takes it.
    pub(crate) points: String,
    /// The last value and the largest one, in words.
    pub(crate) last: String,
    pub(crate) most: String,
}

/// The value of a step that a line shows.
type Value = fn(&PointView) -> Option<u64>;

/// How values are written.
type InWords = fn(f64) -> String;

/// Draws what a trend shows.
pub(crate) fn draw(trend: &TrendView, now: Time) -> Vec<Chart> {
    let chart = |title, write: InWords, is_rate, lines: &[(&'static str, &'static str, Value)]| {
        let values: Vec<Vec<Option<f64>>> = lines
            .iter()
            .map(|(.., value)| values(trend, now, *value, is_rate))
            .collect();
        let all = values.iter().flatten().flatten();
        let top = all.copied().fold(0.0, f64::max);
        let lines = lines.iter().zip(&values);
        Chart {
            title,
            lines: lines
                .map(|((class, label, _), values)| line(class, label, values, top, write))
                .collect(),
        }
    };
    let ms: InWords = |value| duration(whole(value));
    let jobs: InWords = |value| number(whole(value));
    vec![
        chart(
            "Jobs a second",
            rate,
            true,
            &[
                ("in", "in", |it| Some(it.enqueued)),
                ("out", "out", |it| {
                    Some(it.completed + it.discarded + it.cancelled)
                }),
            ],
        ),
        chart(
            "Waiting jobs",
            jobs,
            false,
            &[("in", "waiting", |it| it.waiting)],
        ),
        chart(
            "Failures",
            jobs,
            false,
            &[
                ("warn", "attempts", |it| Some(it.failures)),
                ("bad", "discarded jobs", |it| Some(it.discarded)),
            ],
        ),
        chart(
            "Wait for a slot",
            ms,
            false,
            &[
                ("in", "p50", |it| Some(it.waited_ms.p50)),
                ("warn", "p99", |it| Some(it.waited_ms.p99)),
            ],
        ),
        chart(
            "Run",
            ms,
            false,
            &[
                ("in", "p50", |it| Some(it.ran_ms.p50)),
                ("warn", "p99", |it| Some(it.ran_ms.p99)),
            ],
        ),
    ]
}

/// Returns the values of the steps. Rates are by second; the last step is not over.
fn values(trend: &TrendView, now: Time, value: Value, is_rate: bool) -> Vec<Option<f64>> {
    let step_ms = u64::from(trend.step_seconds) * 1_000;
    let points = trend.points.iter();
    points
        .map(|point| {
            let begun = Time::parse_rfc3339(&point.at)?;
            let lasted = now.since_ms(begun).clamp(1_000, step_ms);
            let value = float(value(point)?);
            Some(if is_rate {
                value * 1_000.0 / float(lasted)
            } else {
                value
            })
        })
        .collect()
}

fn line(
    class: &'static str,
    label: &'static str,
    values: &[Option<f64>],
    top: f64,
    write: InWords,
) -> Line {
    let last_place = values.len().saturating_sub(1).max(1);
    let mut points = String::new();
    for (n, value) in values.iter().enumerate() {
        if let Some(value) = value {
            let y = if top > 0.0 {
                HEIGHT - value * HEIGHT / top
            } else {
                HEIGHT
            };
            let x = n * WIDTH / last_place;
            let _ = write!(points, "{x},{y:.1} ");
        }
    }
    let most = values.iter().flatten().copied().fold(0.0, f64::max);
    Line {
        class,
        label,
        points,
        last: values
            .last()
            .copied()
            .flatten()
            .map_or_else(|| "–".to_owned(), write),
        most: write(most),
    }
}

fn rate(value: f64) -> String {
    if value < 10.0 {
        format!("{value:.1}")
    } else {
        number(whole(value))
    }
}

#[expect(clippy::cast_precision_loss, reason = "drawings are not that exact")]
fn float(value: u64) -> f64 {
    value as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "values are whole numbers that are not negative"
)]
fn whole(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_have_one_place_for_each_step_and_their_values_in_words() {
        let spread = json!({"p50": 2_000, "p99": 4_000, "max": 4_000});
        let point = |at: &str, enqueued: u64, waiting| {
            json!({"at": at, "enqueued": enqueued, "completed": 0, "discarded": 1, "cancelled": 0, "failures": 3,
                "waiting": waiting, "waited_ms": spread, "ran_ms": spread})
        };
        let document = json!({"step_seconds": 60, "points": [
            point("2026-05-17T18:30:00Z", 600, None), point("2026-05-17T18:31:00Z", 30, Some(7)),
        ]});
        let trend: TrendView = serde_json::from_value(document).unwrap();
        let now = Time::parse_rfc3339("2026-05-17T18:31:10Z").unwrap();
        let charts = draw(&trend, now);
        let jobs = &charts[0].lines[0];
        assert_eq!(jobs.points, "0,0.0 600,70.0 ");
        assert_eq!((jobs.last.as_str(), jobs.most.as_str()), ("3.0", "10"));
        assert_eq!(charts[1].lines[0].points, "600,0.0 ");
        let run = &charts[4].lines[1];
        assert_eq!(
            (run.last.as_str(), run.points.as_str()),
            ("4.0 s", "0,0.0 600,0.0 ")
        );
        let empty = TrendView {
            step_seconds: 60,
            points: Vec::new(),
        };
        assert!(
            draw(&empty, now)
                .iter()
                .flat_map(|it| &it.lines)
                .all(|it| it.points.is_empty())
        );
    }
}
