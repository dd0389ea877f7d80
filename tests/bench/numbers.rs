//! Medians and percentiles.

use std::time::Duration;

/// Returns the quantile `part` of the sorted values, or 0 if there are none.
pub(crate) fn percentile(sorted: &[f64], part: f64) -> f64 {
    if sorted.is_empty() {
        return 0.0;
    }
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "few values, and a part between 0 and 1"
    )]
    let index = ((sorted.len() - 1) as f64 * part).round() as usize;
    sorted[index.min(sorted.len() - 1)]
}

/// Returns the median, or 0 if there are no values.
pub(crate) fn median(values: &[f64]) -> f64 {
    let sorted = sorted(values);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        len if len % 2 == 0 => f64::midpoint(sorted[middle - 1], sorted[middle]),
        _ => sorted[middle],
    }
}

/// Returns the sorted values.
pub(crate) fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Returns a duration in milliseconds.
pub(crate) fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Returns a count as a float.
#[expect(clippy::cast_precision_loss, reason = "counts here are far below 2^52")]
pub(crate) fn count(n: usize) -> f64 {
    n as f64
}

#[cfg(test)]
mod tests {
    use super::{median, percentile, sorted};

    #[test]
    fn the_middle_and_the_ends_are_found() {
        let values = sorted(&[5.0, 1.0, 3.0, 2.0, 4.0]);
        assert!((median(&values) - 3.0).abs() < 1e-9);
        assert!((median(&[4.0, 1.0, 3.0, 2.0]) - 2.5).abs() < 1e-9);
        assert!((percentile(&values, 0.99) - 5.0).abs() < 1e-9);
        assert!((percentile(&values, 0.0) - 1.0).abs() < 1e-9);
        assert!(percentile(&[], 0.5).abs() < 1e-9);
    }
}
