//! The text format of Prometheus, made from that of `OpenMetrics`. Pure.

use std::collections::BTreeSet;

/// Rewrites metrics: counters get their `_total` in comments too, and what only `OpenMetrics` has is left out.
pub(crate) fn text(openmetrics: &str) -> String {
    let mut out = String::with_capacity(openmetrics.len());
    let types = openmetrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "));
    let counters: BTreeSet<&str> = types
        .filter_map(|line| line.strip_suffix(" counter"))
        .collect();
    for line in openmetrics.lines() {
        let comment = line
            .strip_prefix("# ")
            .and_then(|line| line.split_once(' '));
        match comment {
            Some((keyword @ ("HELP" | "TYPE"), rest)) => {
                let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
                let total = if counters.contains(name) {
                    "_total"
                } else {
                    ""
                };
                out.extend(["# ", keyword, " ", name, total, " ", rest, "\n"]);
            }
            _ if line.starts_with('#') => {}
            _ => out.extend([line, "\n"]),
        }
    }
    out
}

/// Returns whether a client would rather have `OpenMetrics`: what its `Accept` says, if it says anything.
pub(crate) fn prefers_openmetrics(accept: &str) -> bool {
    let weight = |wanted: &str| {
        let ranges = accept.split(',').filter_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next()?;
            let weight = parts
                .find_map(|part| part.strip_prefix("q="))
                .map_or(Some(1.0), |weight| weight.parse::<f32>().ok())?;
            (kind.eq_ignore_ascii_case(wanted)).then_some(weight)
        });
        ranges.fold(0.0, f32::max)
    };
    let openmetrics = weight("application/openmetrics-text");
    openmetrics > 0.0 && openmetrics >= weight("text/plain")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_name_what_the_samples_are_called() {
        let openmetrics = "\
# HELP host_runs Attempts in cells now.
# TYPE host_runs gauge
host_runs 3
# HELP host_attempts Attempts that ended.
# TYPE host_attempts counter
host_attempts_total{outcome=\"lost\"} 1
# HELP host_took_seconds Time.
# TYPE host_took_seconds histogram
# UNIT host_took_seconds seconds
host_took_seconds_sum 0.5
# EOF
";
        let expected = "\
# HELP host_runs Attempts in cells now.
# TYPE host_runs gauge
host_runs 3
# HELP host_attempts_total Attempts that ended.
# TYPE host_attempts_total counter
host_attempts_total{outcome=\"lost\"} 1
# HELP host_took_seconds Time.
# TYPE host_took_seconds histogram
host_took_seconds_sum 0.5
";
        assert_eq!(text(openmetrics), expected);
    }

    #[test]
    fn a_client_gets_the_format_that_it_prefers() {
        let prometheus = "application/openmetrics-text;version=1.0.0,\
                          application/openmetrics-text;version=0.0.1;q=0.75,\
                          text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        for (accept, expected) in [
            ("", false),
            ("*/*", false),
            ("text/plain", false),
            (prometheus, true),
            ("application/openmetrics-text", true),
            ("text/plain, application/openmetrics-text;q=0.5", false),
            ("application/openmetrics-text; q=0", false),
        ] {
            assert_eq!(prefers_openmetrics(accept), expected, "{accept:?}");
        }
    }
}
