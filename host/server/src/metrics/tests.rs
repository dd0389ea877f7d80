//! Generates `docs/metrics.md` from the metrics of a host and compares them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use host_api::limit::LimitBody;
use host_core::id::NodeId;
use host_core::job::State;
use host_core::outcome::Outcome;
use host_core::port::requests::EndedRequest;
use host_core::query::Change;
use host_core::requests::{RequestEnd, RequestReport, RequestTarget};
use host_dispatch::foreign::register_dropped;
use host_dispatch::logged::Logs;
use host_dispatch::numbers::Numbers;
use host_engine::limit::KeptLimit;
use host_engine::node::Life;
use host_engine::schedule::Source;
use host_http::metrics::Metrics as _;
use host_wire_kit::executors::ExecutorHealth;

use super::*;
use crate::executors::numbers::Numbers as ExecutorNumbers;
use crate::serve::certificates;
use crate::{published, telemetry};

const INTRO: &str = "\
# Metrics

`GET /metrics` shows these in the text format of Prometheus, or in that of OpenMetrics to a client whose `Accept`
prefers it. Histograms have `_bucket`, `_sum` and `_count` behind their name. The export over OTLP leaves out
`_total`. Generated from what a host shows; `cargo xtask test docs --update` updates it.

On a host with tokens, Prometheus needs one that allows `metrics`:

```sh
host token create prometheus --allow metrics --expires 365d > /etc/prometheus/host.token
```

```yaml
scrape_configs:
  - job_name: host
    authorization:
      credentials_file: /etc/prometheus/host.token
    static_configs:
      - targets: [\"127.0.0.1:7700\"]
```

| name | type | labels | what it is |
|---|---|---|---|
";

/// Makes all metrics of a host, each with a value, because metrics without one are not shown.
fn scrape() -> String {
    let metrics = Metrics::default();
    let (numbers, (logs, _written)) = (Numbers::default(), Logs::channel());
    metrics.register(|registry| numbers.register(registry));
    metrics.register(|registry| logs.register(registry));
    metrics.register(|registry| register_dropped(&Counter::default(), registry));
    metrics.register(|registry| telemetry::register_dropped(&Counter::default(), registry));
    metrics.set_depth("rrq", "w1", "queued", 1);
    let executors = ExecutorNumbers::default();
    metrics.register(|registry| executors.register(registry));
    executors.set(&ExecutorHealth {
        name: "python".parse().unwrap(),
        wire: "rrq",
        is_external: false,
        is_restartable: true,
        workers: Vec::new(),
    });
    metrics.register(|registry| certificates::Numbers::default().register(registry));
    metrics.register(|registry| {
        let outboxes = host_outbox::Numbers::default();
        outboxes.register(registry);
        outboxes.of_outbox("shop");
    });
    metrics.count_response("GET", "/healthz", 200, Duration::from_millis(1));
    let queue = QueueStatus {
        name: "default".parse().unwrap(),
        paused: false,
        counts: [1; 8],
    };
    metrics.set_oldest(
        Time(5_000),
        std::slice::from_ref(&queue),
        &[(queue.name.clone(), Time(0))],
    );
    metrics.set_jobs(&[queue]);
    let nominal = Time(0);
    let firing = |fate| Firing {
        nominal,
        at: nominal,
        fate,
    };
    metrics.count_firing(&firing(Fate::Skipped), false);
    metrics.set_limits(&one_limit(), &BTreeMap::from([(1, 3)]));
    metrics.set_nodes(&[NodeRecord {
        id: NodeId::NIL,
        version: "1".to_owned(),
        life: Life::Lives,
        silent_ms: 500,
        ahead_ms: 3,
        drain: false,
        info: None,
        components: Arc::default(),
    }]);
    let changed = Change {
        job: "01990f3c-1a2b-7000-8000-000000000001".parse().unwrap(),
        handler: "echo".parse().unwrap(),
        executor: None,
        queue: "default".parse().unwrap(),
        from: None,
        to: Some(State::Available),
        attempt: 0,
    };
    numbers.changed(Time(0), &[changed]);
    metrics.refused("rrq", "malformed");
    numbers.ended(Time(0), "echo", &Outcome::Completed { result: None }, 1);
    numbers.foreign_ended("hero", &Outcome::Completed { result: None });
    numbers.requests(None).ended(&EndedRequest {
        handler: "echo",
        job: "a",
        attempt: 1,
        span: None,
        began_at: Time(0),
        asked: &RequestTarget::default(),
        ended: RequestReport {
            end: RequestEnd::Answered(200),
            sent_bytes: 1,
            received_bytes: 1,
            took_us: 1,
        },
    });
    metrics.encode()
}

fn one_limit() -> Limits {
    let limit = LimitBody {
        concurrency: Some(1),
        ..LimitBody::default()
    }
    .into_limit("by-customer".parse().unwrap(), Source::Api);
    let kept = KeptLimit {
        number: 1,
        limit: limit.unwrap(),
        is_removed: false,
        cursor: None,
    };
    Limits([(1, kept)].into())
}

/// Returns the label names of a metric's first value.
fn labels(shown: &str, name: &str) -> String {
    let values = shown.lines().filter(|line| line.starts_with(name));
    let labels = values.filter_map(|line| Some(line.split_once('{')?.1.split_once('}')?.0));
    let names: Vec<_> = labels
        .take(1)
        .flat_map(|labels| labels.split(','))
        .filter_map(|label| Some(label.split_once('=')?.0))
        .filter(|name| *name != "le")
        .collect();
    names.join(", ")
}

#[test]
fn the_published_numbers_are_those_of_the_code() {
    let shown = scrape();
    let mut doc = INTRO.to_owned();
    for line in shown.lines() {
        let Some((name, help)) = line
            .strip_prefix("# HELP ")
            .and_then(|rest| rest.split_once(' '))
        else {
            continue;
        };
        let kind = shown
            .lines()
            .find_map(|line| line.strip_prefix(&format!("# TYPE {name} ")))
            .unwrap();
        let (labels, help) = (labels(&shown, name), help.trim_end_matches('.'));
        let suffix = if kind == "counter" { "_total" } else { "" };
        writeln!(doc, "| `{name}{suffix}` | {kind} | {labels} | {help} |").unwrap();
    }
    published::check("metrics.md", &doc);
}

#[test]
fn the_age_of_the_oldest_job_is_that_of_its_queue() {
    let metrics = Metrics::default();
    let queue = |name: &str, available| {
        let mut counts = [0; STATES.len()];
        counts[State::Available as usize] = available;
        QueueStatus {
            name: name.parse().unwrap(),
            paused: false,
            counts,
        }
    };
    let queues = [queue("idle", 0), queue("mail", 3)];
    assert_eq!(metrics.waiting(&queues), [&queues[1].name]);
    let since = [(queues[1].name.clone(), Time(1_500))];
    metrics.set_oldest(Time(4_000), &queues, &since);
    let shown = metrics.encode();
    for line in [
        "host_oldest_available_job_age_seconds{queue=\"idle\"} 0.0",
        "host_oldest_available_job_age_seconds{queue=\"mail\"} 2.5",
        "# UNIT host_oldest_available_job_age_seconds seconds",
    ] {
        assert!(shown.contains(line), "{line} is not in {shown}");
    }
}
