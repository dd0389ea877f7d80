//! The measurements, as a table for people and as JSON for programs.

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table};
use serde_json::{Value, json};

use crate::numbers::median;

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
            Self::AtLeast(limit) => format!("≥ {}", shown(limit)),
            Self::AtMost(limit) => format!("≤ {}", shown(limit)),
        }
    }
}

impl Report {
    /// Adds one or more measurements.
    pub(crate) fn add(
        &mut self,
        name: impl Into<String>,
        unit: &'static str,
        rounds: Vec<f64>,
        target: Option<Target>,
    ) {
        self.rows.push(Row {
            name: name.into(),
            unit,
            rounds,
            target,
        });
    }

    /// Returns the median of a row.
    pub(crate) fn median(&self, name: &str) -> Option<f64> {
        let row = self.rows.iter().find(|row| row.name == name)?;
        Some(median(&row.rounds))
    }

    /// Adds the ratio of two rows, if both exist.
    pub(crate) fn ratio(
        &mut self,
        name: &str,
        of: &str,
        to: &str,
        target: impl Into<Option<Target>>,
    ) {
        if let (Some(of), Some(to)) = (self.median(of), self.median(to))
            && to > 0.0
        {
            self.add(name, "×", vec![of / to], target.into());
        }
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
                _ => (shown(least), shown(most)),
            };
            table.add_row([
                Cell::new(&row.name),
                right(shown(value)),
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
            let mut shown = json!({
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
                shown["target"] = json!({ kind: limit });
                shown["met"] = target.is_met(value).into();
            }
            shown
        });
        json!({
            "cores": std::thread::available_parallelism().map_or(0, usize::from),
            "rows": rows.collect::<Vec<_>>(),
        })
    }
}

/// Formats three digits, or all before the point, with commas between thousands.
fn shown(value: f64) -> String {
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
    use super::{Report, Target, shown};

    #[test]
    fn numbers_are_short() {
        let all = [0.123_45, 1.234, 12.345, 123.45, 1_234.5, 1_234_567.0].map(shown);
        assert_eq!(all, ["0.123", "1.23", "12.3", "123", "1,234", "1,234,567"]);
    }

    #[test]
    fn ratios_are_of_medians_and_tell_whether_they_are_met() {
        let mut report = Report::default();
        report.add("a", "1/s", vec![1.0, 9.0, 2.0], None);
        report.add("b", "1/s", vec![4.0], None);
        report.ratio("a to b", "a", "b", Target::AtLeast(0.4));
        report.ratio("a to c", "a", "c", Target::AtLeast(0.4));
        let json = report.json();
        assert_eq!(json["rows"].as_array().unwrap().len(), 3);
        assert_eq!(json["rows"][2]["median"], 0.5);
        assert_eq!(json["rows"][2]["met"], true);
        assert!(report.table().contains("≥ 0.400"));
    }
}
