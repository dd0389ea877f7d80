//! Summarizes the columns of a CSV file.

use std::collections::BTreeMap;

use guest_sdk::schemars::{self, JsonSchema};
use guest_sdk::{Category, Ctx, Error, export_handlers, handler};
use serde::{Deserialize, Serialize};

export_handlers!(csv_summary);

/// How often the handler reports progress, in rows.
const PROGRESS_ROWS: usize = 1_000;

/// How many of a column's most frequent texts the summary contains.
const TOP_TEXTS: usize = 3;

#[derive(Deserialize, JsonSchema)]
struct Table {
    /// The content of the file. The first line contains the column names.
    csv: String,
}

#[derive(Debug, PartialEq, Serialize, JsonSchema)]
struct Summary {
    /// The number of rows, without the line of column names.
    rows: usize,
    /// The columns, in the order of the file.
    columns: Vec<Column>,
}

#[derive(Debug, PartialEq, Serialize, JsonSchema)]
struct Column {
    name: String,
    /// The number of empty cells.
    empty: usize,
    /// Present if all cells that are not empty are numbers.
    numbers: Option<Numbers>,
    /// The most frequent texts with their counts. Empty if the column has numbers.
    top: Vec<(String, usize)>,
}

#[derive(Debug, PartialEq, Serialize, JsonSchema)]
struct Numbers {
    min: f64,
    max: f64,
    mean: f64,
}

/// Returns the count, range, mean and most frequent values of each column of a CSV file.
#[handler("csv-summary", schema)]
fn csv_summary(ctx: &Ctx, params: Table) -> Result<Summary, Error> {
    let mut reader = csv::Reader::from_reader(params.csv.as_bytes());
    let malformed = |error: csv::Error| Error::new(Category::DataQuality, "malformed_csv", error);
    let names = reader.headers().map_err(malformed)?.clone();
    let mut columns: Vec<ColumnStats> = names.iter().map(|_| ColumnStats::default()).collect();
    let mut rows = 0;
    let mut record = csv::StringRecord::new();
    while reader.read_record(&mut record).map_err(malformed)? {
        for (stats, cell) in columns.iter_mut().zip(&record) {
            stats.add(cell);
        }
        rows += 1;
        if rows % PROGRESS_ROWS == 0 {
            ctx.check_cancelled()?;
            ctx.progress(done(&reader, &params.csv), format_args!("{rows} rows"));
        }
    }
    let columns = names
        .iter()
        .zip(columns)
        .map(|(name, stats)| stats.column(name))
        .collect();
    Ok(Summary { rows, columns })
}

/// Returns how much of the file has been read, in percent.
#[expect(
    clippy::cast_precision_loss,
    reason = "a percentage needs no more precision"
)]
fn done(reader: &csv::Reader<&[u8]>, csv: &str) -> f32 {
    reader.position().byte() as f32 * 100.0 / csv.len() as f32
}

/// Statistics of the cells of a column that have been read so far.
#[derive(Default)]
struct ColumnStats {
    empty: usize,
    count: u32,
    sum: f64,
    range: Option<(f64, f64)>,
    is_text: bool,
    texts: BTreeMap<String, usize>,
}

impl ColumnStats {
    fn add(&mut self, cell: &str) {
        if cell.is_empty() {
            self.empty += 1;
            return;
        }
        *self.texts.entry(cell.to_owned()).or_default() += 1;
        let Ok(number) = cell.parse::<f64>() else {
            self.is_text = true;
            return;
        };
        let (min, max) = self.range.unwrap_or((number, number));
        self.range = Some((min.min(number), max.max(number)));
        self.count += 1;
        self.sum += number;
    }

    fn column(self, name: &str) -> Column {
        let numbers = self
            .range
            .filter(|_| !self.is_text)
            .map(|(min, max)| Numbers {
                min,
                max,
                mean: self.sum / f64::from(self.count),
            });
        let mut top: Vec<(String, usize)> = match numbers {
            Some(_) => Vec::new(),
            None => self.texts.into_iter().collect(),
        };
        top.sort_by(|(a, more), (b, less)| less.cmp(more).then_with(|| a.cmp(b)));
        top.truncate(TOP_TEXTS);
        Column {
            name: name.to_owned(),
            empty: self.empty,
            numbers,
            top,
        }
    }
}

#[cfg(test)]
mod tests {
    use guest_sdk::{Error, MockHost};

    use super::{Table, csv_summary};

    fn summary(csv: &str) -> Result<super::Summary, Error> {
        let csv = csv.to_owned();
        csv_summary(&MockHost::new().ctx(), Table { csv })
    }

    #[test]
    fn summarizes_columns_of_numbers_and_of_texts() {
        let summary = summary("n,t\n1,a\n3,b\n,b\n").unwrap();
        assert_eq!(summary.rows, 3);
        let numbers = summary.columns[0].numbers.as_ref().unwrap();
        assert_eq!((numbers.min, numbers.max, numbers.mean), (1.0, 3.0, 2.0));
        assert_eq!(summary.columns[0].empty, 1);
        assert_eq!(summary.columns[1].top[0], ("b".to_owned(), 2));
    }

    #[test]
    fn a_malformed_file_is_an_error() {
        let Err(Error::Failed(failed)) = summary("a,b\n1\n") else {
            panic!("the file was accepted")
        };
        assert_eq!(failed.kind, "malformed_csv");
    }
}
