//! The measurements, as a table for people and as JSON for programs.

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table};
use serde_json::{Value, json};

use crate::numbers::{median, percentile, sorted};

/// A target for a number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    AtLeast(f64),
    AtMost(f64),
}

struct Row {
    name: String,
    unit: &'static str,
    rounds: Vec<f64>,
    target: Option<Target>,
}

/// All rows of a run, in their order.
#[derive(Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
}

impl Target {
    fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtLeast(limit) => value >= limit,
            Self::AtMost(limit) => value <= limit,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtLeast(limit) => format!("≥ {}", format_number(limit)),
            Self::AtMost(limit) => format!("≤ {}", format_number(limit)),
        }
    }
}

impl Report {
    /// Adds a measurement to the row of this name, which is made with the first.
    pub(crate) fn push(&mut self, name: &str, unit: &'static str, value: f64) {
        if let Some(row) = self.rows.iter_mut().find(|row| row.name == name) {
            row.rounds.push(value);
            return;
        }
        self.rows.push(Row {
            name: name.to_owned(),
            unit,
            rounds: vec![value],
            target: None,
        });
    }

    /// Gives a row a target.
    pub(crate) fn target(&mut self, name: &str, target: Target) {
        if let Some(row) = self.rows.iter_mut().find(|row| row.name == name) {
            row.target = Some(target);
        }
    }

    /// Adds the median and the 99th percentile of times in milliseconds, each with a target if it has one.
    pub(crate) fn times(&mut self, name: &str, times: &[f64], most: [Option<f64>; 2]) {
        let times = sorted(times);
        for ((part, quantile), most) in [("p50", 0.5), ("p99", 0.99)].into_iter().zip(most) {
            let name = format!("{name}: {part}");
            self.push(&name, "ms", percentile(&times, quantile));
            if let Some(most) = most {
                self.target(&name, Target::AtMost(most));
            }
        }
    }

    /// Adds the ratio of two rows, if both exist.
    pub(crate) fn ratio(
        &mut self,
        name: &str,
        of: &str,
        to: &str,
        target: impl Into<Option<Target>>,
    ) {
        let median_of = |name| {
            let row = self.rows.iter().find(|row| row.name == name)?;
            Some(median(&row.rounds))
        };
        if let (Some(of), Some(to)) = (median_of(of), median_of(to))
            && to > 0.0
        {
            self.push(name, "×", of / to);
            if let Some(target) = target.into() {
                self.target(name, target);
            }
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Formats the rows as a table.
    pub(crate) fn table(&self) -> String {
        let mut table = Table::new();
        table
            .load_style(comfy_table::presets::UTF8_BORDERS_ONLY)
            .set_content_arrangement(ContentArrangement::Disabled)
            .set_header(["", "median", "unit", "least", "most", "target", ""]);
        for row in &self.rows {
            let value = median(&row.rounds);
            let least = row.rounds.iter().copied().fold(f64::INFINITY, f64::min);
            let most = row.rounds.iter().copied().fold(0.0, f64::max);
            let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
            let (least, most) = match row.rounds.len() {
                0 | 1 => (String::new(), String::new()),
                _ => (format_number(least), format_number(most)),
            };
            table.add_row([
                Cell::new(&row.name),
                right(format_number(value)),
                Cell::new(row.unit),
                right(least),
                right(most),
                Cell::new(row.target.map(Target::text).unwrap_or_default()),
                Cell::new(match row.target {
                    Some(target) if target.is_met(value) => "met",
                    Some(_) => "MISSED",
                    None => "",
                }),
            ]);
        }
        table.to_string()
    }

    /// Formats the rows as JSON.
    pub(crate) fn json(&self) -> Value {
        let rows = self.rows.iter().map(|row| {
            let value = median(&row.rounds);
            let mut object = json!({
                "name": row.name,
                "unit": row.unit,
                "median": value,
                "rounds": row.rounds,
            });
            if let Some(target) = row.target {
                let (kind, limit) = match target {
                    Target::AtLeast(limit) => ("at_least", limit),
                    Target::AtMost(limit) => ("at_most", limit),
                };
                object["target"] = json!({ kind: limit });
                object["met"] = target.is_met(value).into();
            }
            object
        });
        json!({
            "cores": std::thread::available_parallelism().map_or(0, usize::from),
            "rows": rows.collect::<Vec<_>>(),
        })
    }
}

/// Formats three digits, or all before the point, with commas between thousands.
fn format_number(value: f64) -> String {
    match value.abs() {
        size if size >= 1_000.0 => {
            let digits = format!("{value:.0}");
            let groups: Vec<&str> = digits
                .as_bytes()
                .rchunks(3)
                .rev()
                .filter_map(|group| std::str::from_utf8(group).ok())
                .collect();
            groups.join(",")
        }
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Report, Target, format_number};

    #[test]
    fn numbers_are_short() {
        let all = [0.123_45, 1.234, 12.345, 123.45, 1_234.5, 1_234_567.0].map(format_number);
        assert_eq!(all, ["0.123", "1.23", "12.3", "123", "1,234", "1,234,567"]);
    }

    #[test]
    fn ratios_are_of_medians_and_tell_whether_they_are_met() {
        let mut report = Report::default();
        for value in [1.0, 9.0, 2.0] {
            report.push("a", "1/s", value);
        }
        report.push("b", "1/s", 4.0);
        report.ratio("a to b", "a", "b", Target::AtLeast(0.4));
        report.ratio("a to c", "a", "c", Target::AtLeast(0.4));
        let json = report.json();
        assert_eq!(json["rows"].as_array().unwrap().len(), 3);
        assert_eq!(json["rows"][2]["median"], 0.5);
        assert_eq!(json["rows"][2]["met"], true);
        assert!(report.table().contains("≥ 0.400"));
    }
}
