//! Reads the text format of `OpenMetrics`. Pure.

/// One metric of the text, with its values.
#[derive(Default)]
pub(super) struct Family<'a> {
    pub(super) name: &'a str,
    pub(super) help: &'a str,
    pub(super) kind: &'a str,
    pub(super) samples: Vec<Sample<'a>>,
}

/// One line: a value with its labels.
pub(super) struct Sample<'a> {
    /// What follows the metric's name: `_total`, `_bucket`, `_sum`, `_count` or nothing.
    pub(super) suffix: &'a str,
    pub(super) labels: Vec<(&'a str, String)>,
    pub(super) value: f64,
}

/// Reads all metrics of a text.
pub(super) fn families(text: &str) -> Vec<Family<'_>> {
    let mut families: Vec<Family<'_>> = Vec::new();
    for line in text.lines() {
        let comment = |kind| {
            line.strip_prefix(kind)
                .and_then(|rest| rest.split_once(' '))
        };
        if let Some((name, help)) = comment("# HELP ") {
            families.push(Family {
                name,
                help,
                ..Family::default()
            });
        } else if let (Some((_, kind)), Some(family)) = (comment("# TYPE "), families.last_mut()) {
            family.kind = kind;
        } else if let Some(family) = families.last_mut() {
            family.samples.extend(sample(family.name, line));
        }
    }
    families
}

fn sample<'a>(family: &str, line: &'a str) -> Option<Sample<'a>> {
    let rest = line.strip_prefix(family)?;
    let end = rest.find(['{', ' '])?;
    let (suffix, rest) = rest.split_at(end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Vec::new(), rest),
    };
    let value = rest.trim_start().split(' ').next()?.parse().ok()?;
    Some(Sample {
        suffix,
        labels,
        value,
    })
}

/// Reads labels up to the brace that ends them, and returns what follows.
fn labels(mut rest: &str) -> Option<(Vec<(&str, String)>, &str)> {
    let mut labels = Vec::new();
    loop {
        if let Some(rest) = rest.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, quoted) = rest.trim_start_matches(',').split_once("=\"")?;
        let (mut value, mut is_escaped, mut end) = (String::new(), false, None);
        for (at, c) in quoted.char_indices() {
            match (is_escaped, c) {
                (true, 'n') => value.push('\n'),
                (false, '\\') => {}
                (false, '"') => {
                    end = Some(at);
                    break;
                }
                (_, c) => value.push(c),
            }
            is_escaped = !is_escaped && c == '\\';
        }
        rest = quoted.get(end? + 1..)?;
        labels.push((name, value));
    }
}
