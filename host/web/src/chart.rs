//! Lines over time, drawn on the server. Their values are also a table.

use std::fmt::Write as _;

use host_api::trend::{PointView, TrendView};
use host_core::time::Time;

use crate::format::{duration, number};

/// How wide and high a drawing is, in its own units.
const WIDTH: usize = 600;
const HEIGHT: f64 = 100.0;

/// How many parts the labels divide the time into.
const PARTS: usize = 4;

/// From which length of a step on an instant is a day, in seconds.
const DAYS_FROM: u32 = 3_600;

/// All drawings of a trend.
#[derive(Default)]
pub(crate) struct Charts {
    pub(crate) list: Vec<Chart>,
    /// The labels of the time scale.
    pub(crate) times: Vec<String>,
    /// The steps, the oldest first.
    pub(crate) rows: Vec<Row>,
}

/// One drawing.
pub(crate) struct Chart {
    pub(crate) title: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) lines: Vec<Line>,
    /// The labels of the values, from the top.
    pub(crate) ticks: [String; 3],
    /// The place of its first value in a row.
    pub(crate) column: usize,
}

/// One line of a drawing.
pub(crate) struct Line {
    /// Its class, which is its color.
    pub(crate) class: &'static str,
    pub(crate) label: &'static str,
    /// As SVG takes it.
    pub(crate) points: String,
    /// The last value, in words.
    pub(crate) last: String,
}

/// A step in words.
pub(crate) struct Row {
    pub(crate) at: String,
    pub(crate) values: Vec<String>,
}

/// The value of a step that a line shows.
type Value = fn(&PointView) -> Option<u64>;

/// How values are written.
type InWords = fn(f64) -> String;

/// What a drawing shows.
struct Subject {
    title: &'static str,
    unit: &'static str,
    write: InWords,
    is_rate: bool,
    /// The class, the label and the value of each line.
    lines: &'static [(&'static str, &'static str, Value)],
}

const SUBJECTS: &[Subject] = &[
    Subject {
        title: "Throughput",
        unit: "jobs a second",
        write: rate,
        is_rate: true,
        lines: &[
            ("in", "in", |it| Some(it.enqueued)),
            ("out", "out", |it| {
                Some(it.completed + it.discarded + it.cancelled)
            }),
        ],
    },
    Subject {
        title: "Waiting",
        unit: "jobs",
        write: jobs,
        is_rate: false,
        lines: &[("in", "waiting", |it| it.waiting)],
    },
    Subject {
        title: "Failures",
        unit: "in each step",
        write: jobs,
        is_rate: false,
        lines: &[
            ("warn", "attempts", |it| Some(it.failures)),
            ("bad", "discarded jobs", |it| Some(it.discarded)),
        ],
    },
    Subject {
        title: "Latency",
        unit: "p99",
        write: |value| duration(whole(value)),
        is_rate: false,
        lines: &[
            ("warn", "wait", |it| Some(it.waited_ms.p99)),
            ("in", "run", |it| Some(it.ran_ms.p99)),
        ],
    },
];

/// Draws what a trend shows: its newest steps, at most this many.
pub(crate) fn draw(trend: &TrendView, steps_max: usize, now: Time) -> Charts {
    let surplus = trend.points.len().saturating_sub(steps_max);
    let points = &trend.points[surplus..];
    let step_ms = u64::from(trend.step_seconds) * 1_000;
    let instant = |point: &PointView| instant(&point.at, trend.step_seconds);
    let mut rows: Vec<Row> = points
        .iter()
        .map(|point| Row {
            at: instant(point),
            values: Vec::new(),
        })
        .collect();
    let mut column = 0;
    let chart = |subject: &Subject| {
        let line = |(.., value): &(_, _, Value)| values(points, step_ms, now, *value, subject);
        let values: Vec<Vec<Option<f64>>> = subject.lines.iter().map(line).collect();
        let most = values
            .iter()
            .flatten()
            .flatten()
            .copied()
            .fold(0.0, f64::max);
        let top = round_up(most, if subject.is_rate { 0.2 } else { 2.0 });
        for values in &values {
            for (row, value) in rows.iter_mut().zip(values) {
                row.values.push(in_words(*value, subject.write));
            }
        }
        let lines = subject.lines.iter().zip(&values);
        let chart = Chart {
            title: subject.title,
            unit: subject.unit,
            ticks: [top, top / 2.0, 0.0].map(|value| tick(value, subject.write)),
            lines: lines
                .map(|((class, label, _), values)| Line {
                    class,
                    label,
                    points: polyline(values, top),
                    last: in_words(values.last().copied().flatten(), subject.write),
                })
                .collect(),
            column,
        };
        column += values.len();
        chart
    };
    let list = SUBJECTS.iter().map(chart).collect();
    let newest = points.len().saturating_sub(1);
    let labelled = (0..PARTS).filter_map(|part| points.get(part * newest / PARTS));
    Charts {
        list,
        times: labelled.map(instant).chain(["now".to_owned()]).collect(),
        rows,
    }
}

/// Writes when a step began, in UTC: the time, or the day if steps are long.
fn instant(at: &str, step_seconds: u32) -> String {
    let part = if step_seconds > DAYS_FROM {
        at.get(5..10)
    } else {
        at.get(11..16)
    };
    part.unwrap_or_default().to_owned()
}

/// Returns the values of the steps. Rates are by second; the last step is not over.
fn values(
    points: &[PointView],
    step_ms: u64,
    now: Time,
    value: Value,
    subject: &Subject,
) -> Vec<Option<f64>> {
    let values = points.iter().map(|point| {
        let begun = Time::parse_rfc3339(&point.at)?;
        let lasted = now.since_ms(begun).clamp(1_000, step_ms);
        let value = float(value(point)?);
        Some(if subject.is_rate {
            value * 1_000.0 / float(lasted)
        } else {
            value
        })
    });
    values.collect()
}

/// Returns the smallest of 2, 4, 10, 20, 40, 100 and so on that is not below a value, from `least` on: half of it is round,
/// too.
fn round_up(value: f64, least: f64) -> f64 {
    let mut top = least;
    for factor in [2.0, 2.5, 2.0].into_iter().cycle() {
        if top >= value {
            break;
        }
        top *= factor;
    }
    top
}

fn polyline(values: &[Option<f64>], top: f64) -> String {
    let last_place = values.len().saturating_sub(1).max(1);
    let mut points = String::new();
    for (n, value) in values.iter().enumerate() {
        if let Some(value) = value {
            let x = n * WIDTH / last_place;
            let y = HEIGHT - value * HEIGHT / top;
            let _ = write!(points, "{x},{y:.1} ");
        }
    }
    points
}

fn in_words(value: Option<f64>, write: InWords) -> String {
    value.map_or_else(|| "–".to_owned(), write)
}

/// Writes a label of an axis.
fn tick(value: f64, write: InWords) -> String {
    if value > 0.0 {
        write(value)
    } else {
        "0".to_owned()
    }
}

fn jobs(value: f64) -> String {
    number(whole(value))
}

fn rate(value: f64) -> String {
    if value < 10.0 {
        format!("{value:.1}")
    } else {
        jobs(value)
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

    fn trend() -> TrendView {
        let spread = json!({"p50": 2_000, "p99": 4_000, "max": 4_000});
        let point = |at: &str, enqueued: u64, waiting| {
            json!({"at": at, "enqueued": enqueued, "completed": 0, "discarded": 1, "cancelled": 0, "failures": 3,
                "waiting": waiting, "waited_ms": spread, "ran_ms": spread})
        };
        let document = json!({"step_seconds": 60, "points": [
            point("2026-05-17T18:30:00Z", 600, None), point("2026-05-17T18:31:00Z", 30, Some(7)),
        ]});
        serde_json::from_value(document).unwrap()
    }

    #[test]
    fn lines_have_one_place_for_each_step_and_round_axes() {
        let now = Time::parse_rfc3339("2026-05-17T18:31:10Z").unwrap();
        let charts = draw(&trend(), 60, now);
        let [jobs, waiting, _, latency] = &charts.list[..] else {
            panic!("four charts");
        };
        assert_eq!(jobs.lines[0].points, "0,0.0 600,70.0 ");
        assert_eq!(jobs.lines[0].last, "3.0");
        assert_eq!(jobs.ticks, ["10", "5.0", "0"]);
        assert_eq!(waiting.lines[0].points, "600,30.0 ");
        assert_eq!(waiting.ticks, ["10", "5", "0"]);
        assert_eq!(latency.ticks, ["4.0 s", "2.0 s", "0"]);
        assert_eq!(latency.lines[0].points, "0,0.0 600,0.0 ");
        assert_eq!(charts.times, ["18:30", "18:30", "18:30", "18:30", "now"]);
    }

    #[test]
    fn rows_say_what_lines_show() {
        let now = Time::parse_rfc3339("2026-05-17T18:31:10Z").unwrap();
        let charts = draw(&trend(), 1, now);
        let [row] = &charts.rows[..] else {
            panic!("one row");
        };
        assert_eq!(row.at, "18:31");
        let expected = ["3.0", "0.1", "7", "3", "1", "4.0 s", "4.0 s"];
        assert_eq!(row.values, expected);
        for chart in &charts.list {
            for (n, line) in chart.lines.iter().enumerate() {
                assert_eq!(row.values[chart.column + n], line.last, "{}", line.label);
            }
        }
    }

    #[test]
    fn a_trend_without_steps_has_no_lines() {
        let empty = TrendView {
            step_seconds: 60,
            points: Vec::new(),
        };
        let charts = draw(&empty, 60, Time(0));
        let mut lines = charts.list.iter().flat_map(|it| &it.lines);
        assert!(lines.all(|it| it.points.is_empty() && it.last == "–"));
        assert_eq!(charts.times, ["now"]);
    }

    #[test]
    fn the_top_of_an_axis_is_round_and_so_is_its_half() {
        for (value, top) in [
            (0.0, 2.0),
            (2.0, 2.0),
            (3.0, 4.0),
            (5.0, 10.0),
            (11.0, 20.0),
            (401.0, 1_000.0),
        ] {
            assert!((round_up(value, 2.0) - top).abs() < 1e-9, "{value}");
        }
    }
}
