//! The rules for documents: links and their anchors lead somewhere, the book has each page, sentences of guides are short,
//! and alerts and dashboards name metrics that exist.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::files;
use crate::book::{is_outside, links, normal};
use crate::cargo::root;

/// How many words a sentence of a guide may have.
const WORDS_MAX: usize = 30;

/// The pages with short sentences.
const GUIDES: [&str; 2] = ["docs/guides/", "docs/from/"];

/// Returns the text of a page without its blocks of code.
fn without_code(text: &str) -> String {
    let mut in_code = false;
    let outside = text.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        !is_fence && !in_code
    });
    outside.collect::<Vec<_>>().join("\n")
}

/// Returns the anchors of a page, as GitHub and mdBook make them of its headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for line in without_code(text).lines() {
        let Some((_, heading)) = line
            .split_once(' ')
            .filter(|(marks, _)| !marks.is_empty() && marks.chars().all(|c| c == '#'))
        else {
            continue;
        };
        let anchor: String = heading
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        let mut unique = anchor.clone();
        let mut number = 0;
        while !anchors.insert(unique.clone()) {
            number += 1;
            unique = format!("{anchor}-{number}");
        }
    }
    anchors
}

#[test]
fn links_between_documents_lead_somewhere() {
    let pages: BTreeMap<PathBuf, String> = files(".md").into_iter().collect();
    for (path, text) in &pages {
        let shown = path.display();
        for target in links(text) {
            if is_outside(target) {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = match file {
                "" => path.clone(),
                file => normal(&path.with_file_name(file)),
            };
            assert!(
                root().join(&file).is_file(),
                "{shown} links to {target}, which is not a file"
            );
            let Some(page) = pages.get(&file).filter(|_| !anchor.is_empty()) else {
                continue;
            };
            assert!(
                anchors(page).contains(anchor),
                "{shown} links to {target}, but no heading there has this anchor"
            );
        }
    }
}

/// The book has each page once. Decisions are for those who change the code, and have their own list.
#[test]
fn the_book_has_each_page_of_the_documents() {
    let pages: BTreeSet<String> = files(".md")
        .into_iter()
        .filter_map(|(path, _)| Some(path.strip_prefix("docs").ok()?.to_str()?.to_owned()))
        .filter(|page| page != "SUMMARY.md" && !page.starts_with("decisions/"))
        .collect();
    let summary = std::fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let mut entries = BTreeSet::new();
    for page in links(&summary) {
        assert!(
            entries.insert(page.to_owned()),
            "docs/SUMMARY.md has an entry twice: {page}"
        );
    }
    let missing: Vec<_> = pages.difference(&entries).collect();
    assert!(missing.is_empty(), "docs/SUMMARY.md lacks {missing:?}");
    let dangling: Vec<_> = entries.difference(&pages).collect();
    assert!(
        dangling.is_empty(),
        "docs/SUMMARY.md has {dangling:?}, which docs/ lacks"
    );
}

/// Returns the sentences of a page that are not in code, tables or headings.
fn sentences(text: &str) -> Vec<String> {
    let mut paragraphs = vec![String::new()];
    for line in without_code(text).lines() {
        let line = line.trim();
        let is_other = line.starts_with(['|', '#']) || line.starts_with("<!--");
        if line.is_empty() || is_other || line.starts_with("- ") {
            paragraphs.push(String::new());
        }
        if !is_other && let Some(last) = paragraphs.last_mut() {
            last.push_str(line.trim_start_matches("- "));
            last.push(' ');
        }
    }
    let ends = [". ", ": ", "? ", "! "];
    let mut sentences = Vec::new();
    for paragraph in paragraphs {
        let mut rest = paragraph.as_str();
        while let Some(end) = ends.iter().filter_map(|end| rest.find(end)).min() {
            sentences.push(rest[..=end].to_owned());
            rest = &rest[end + 2..];
        }
        sentences.push(rest.to_owned());
    }
    sentences
}

#[test]
fn sentences_of_guides_are_short() {
    let is_guide = |path: &Path| GUIDES.iter().any(|folder| path.starts_with(folder));
    let mut long = Vec::new();
    for (path, text) in files(".md").into_iter().filter(|(path, _)| is_guide(path)) {
        for sentence in sentences(&text) {
            let words = sentence.split_whitespace().count();
            if words > WORDS_MAX {
                long.push(format!("{}, {words} words: {sentence}", path.display()));
            }
        }
    }
    assert!(
        long.is_empty(),
        "sentences of guides have at most {WORDS_MAX} words:\n{}",
        long.join("\n")
    );
}

/// The alerts, what to do for each, and what else names metrics.
const RULES: &str = "packaging/prometheus-rules.yaml";
const INCIDENTS: &str = "docs/guides/incidents.md";
const DASHBOARD: &str = "packaging/grafana-dashboard.json";
const METRICS: &str = "docs/metrics.md";

/// What the names of a histogram's series end with.
const SERIES: [&str; 3] = ["_bucket", "_sum", "_count"];

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

#[test]
fn alerts_and_dashboards_name_metrics_that_exist() {
    let metrics = read(METRICS);
    let exists = |name: &str| metrics.contains(&format!("| `{name}` |"));
    let dashboard: serde_json::Value = serde_json::from_str(&read(DASHBOARD)).unwrap();
    assert!(
        dashboard["panels"]
            .as_array()
            .is_some_and(|it| it.len() > 10)
    );
    for (path, text) in [(RULES, read(RULES)), (DASHBOARD, dashboard.to_string())] {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let names: BTreeSet<&str> = words.filter(|word| word.starts_with("host_")).collect();
        assert!(names.len() > 10, "{path} names metrics");
        for name in names {
            let of_histogram = SERIES.iter().find_map(|end| name.strip_suffix(end));
            assert!(
                exists(name) || of_histogram.is_some_and(exists),
                "{path} names {name}, which {METRICS} lacks"
            );
        }
    }
}

#[test]
fn each_alert_has_a_section_that_says_what_to_do() {
    let (rules, incidents) = (read(RULES), read(INCIDENTS));
    let after = |text: &str, mark: &str| -> BTreeSet<String> {
        let names = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix(mark));
        names
            .filter_map(|name| name.split_whitespace().next())
            .map(str::to_owned)
            .collect()
    };
    let alerts = after(&rules, "- alert: ");
    assert!(alerts.len() > 10, "the alerts are found: {alerts:?}");
    assert_eq!(after(&incidents, "## "), alerts);
}
