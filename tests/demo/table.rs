//! The table of outcomes: one line for each job, from its last attempt.

use comfy_table::{CellAlignment, Table, presets};
use host_tests::Client;
use serde_json::Value;

/// One line.
pub(crate) struct Row([String; 8]);

/// Makes the line of a job that has ended.
pub(crate) fn row(client: &Client, job: &Value, what: &str) -> anyhow::Result<Row> {
    let id = job["id"].as_str().unwrap_or_default();
    let attempts = client.get(&format!("/api/v1/jobs/{id}/attempts"))?.body;
    let last = attempts["items"]
        .as_array()
        .and_then(|items| items.last())
        .cloned()
        .unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let failure = job["failure"]["kind"].as_str();
    let state = text(&job["state"]);
    Ok(Row([
        text(&job["handler"]),
        text(&job["wire"]),
        what.to_owned(),
        job["attempt"].to_string(),
        failure.map_or_else(|| state.clone(), |kind| format!("{state}: {kind}")),
        last["duration_ms"]
            .as_u64()
            .map_or_else(|| "-".to_owned(), |ms| format!("{ms} ms")),
        last["fuel"]
            .as_u64()
            .filter(|fuel| *fuel > 0)
            .map_or_else(|| "-".to_owned(), thousands),
        last["peak_memory_bytes"]
            .as_f64()
            .filter(|bytes| *bytes > 0.0)
            .map_or_else(
                || "-".to_owned(),
                |bytes| format!("{:.1} MiB", bytes / 1_048_576.0),
            ),
    ]))
}

/// Renders the lines under their head.
pub(crate) fn render(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY).set_header([
        "handler",
        "wire",
        "what",
        "attempt",
        "outcome",
        "duration",
        "fuel",
        "peak memory",
    ]);
    for row in rows {
        table.add_row(&row.0);
    }
    for column in table.column_iter_mut().skip(3) {
        if column.index != 4 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Formats a number with a space between groups of three digits.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}
