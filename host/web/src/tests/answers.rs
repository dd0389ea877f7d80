//! What the API answers in these tests.

use axum::Json;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use host_api::path;
use serde_json::{Value, json};

use super::ID;

/// What others say, in all answers.
#[derive(Clone)]
pub(super) struct Answer {
    /// Wherever they choose names.
    pub(super) name: String,
    /// Wherever they may put any text.
    pub(super) text: String,
    /// How many items lists have.
    pub(super) items: usize,
}

impl Answer {
    pub(super) fn once(text: &str) -> Self {
        Self {
            name: text.to_owned(),
            text: text.to_owned(),
            items: 1,
        }
    }
}

fn job(sample: &Answer) -> Value {
    let (name, text) = (sample.name.as_str(), sample.text.as_str());
    json!({
        "id": ID, "state": "discarded", "handler": name, "queue": name, "priority": 5, "attempt": 1,
        "max_attempts": 2, "waited_ms": 5, "ran_ms": 6, "wire": name, "enqueued_at": "2026-05-17T18:30:00.000Z",
        "node": {"id": name, "name": name}, "waits_because": text, "unique_key": text, "external_id": text,
        "notify": [{"url": text, "secret": "hooks", "events": ["job.completed"]}],
        "attributes": {text: text}, "depends_on": vec![name; sample.items], "dependents": vec![name; sample.items], "cancel_reason": text,
        "cancel_requested_at": "2026-05-17T18:30:00.000Z",
        "progress": {"percent": 45.5, "message": text},
        "params": {"n": 9_007_199_254_740_993_u64, text: text}, "result": text, "failure": failure(sample),
    })
}

fn schedule(sample: &Answer) -> Value {
    let (name, text) = (sample.name.as_str(), sample.text.as_str());
    json!({
        "name": name, "source": "api", "fires_at": "2026-05-17T18:30:00Z", "previous": "2026-05-17T18:30:00Z",
        "held": 1, "counts": {"fired": 9, "late": 1, "skipped": 2, "missed": 3, "failed": 4},
        "schedule": {"when": {"cron": [text, text]}, "time_zone": name, "overlap": "skip", "catch_up": "last",
            "job": {"handler": name, "params": {text: text}}, "paused": true, "note": text},
    })
}

fn batch(sample: &Answer) -> Value {
    let (name, text) = (sample.name.as_str(), sample.text.as_str());
    let callback = json!({"on": name, "handler": name, "queue": name, "job": ID, "enqueued": true});
    json!({"id": name, "state": name, "created_at": "2026-05-17T18:30:00Z", "created_by": name, "waits_because": text,
        "counts": {"jobs": 9, "not_ended": 4, "completed": 3, "discarded": 2, "cancelled": 0}, "callbacks": [callback]})
}

fn limit(sample: &Answer) -> Value {
    let (name, text) = (sample.name.as_str(), sample.text.as_str());
    json!({
        "name": name, "source": "api", "waiting": 9,
        "limit": {"match": {"queue": name, "handler": name}, "key": [name, name], "concurrency": 3,
            "rate": {"count": 10, "per_seconds": 60}},
        "keys": vec![json!({"key": text, "waiting": 9, "available": 1, "running": 2}); sample.items.min(20)],
    })
}

fn failure(sample: &Answer) -> Value {
    let text = sample.text.as_str();
    json!({"kind": "user_error", "category": "USER_CODE", "message": text, "user_kind": text, "stack": text})
}

fn spread(p50: u64, p99: u64) -> Value {
    json!({"p50": p50, "p99": p99, "max": p99})
}

fn handler(sample: &Answer) -> Value {
    let (name, text) = (sample.name.as_str(), sample.text.as_str());
    let (cheap, memory, spread) = (spread(4, 5), spread(6 << 10, 7 << 10), spread(1, 2));
    let cost = json!({"runs": 10, "failures": 9, "ran_ms": spread, "fuel": spread, "cpu_us": spread,
        "peak_memory_bytes": spread});
    let before = json!({"runs": 7, "failures": 0, "ran_ms": cheap, "fuel": cheap, "cpu_us": cheap,
        "peak_memory_bytes": memory});
    json!({
        "name": name, "description": text, "component": name, "revision": 1, "max_attempts": 20,
        "backoff": {"base_ms": 1, "max_ms": 2},
        "limits": {"memory_bytes": 1, "timeout_ms": 1, "grace_ms": 1, "result_bytes_max": 1, "log_bytes_max": 1},
        "grants": {"env": vec![name; sample.items], "read_dirs": [{"host": name, "guest": name}],
            "http": [{"to": name, "methods": ["GET"], "paths": [], "headers": ["authorization"], "secrets": [name]}],
            "jobs": [{"handlers": [name, "mail-*"], "queues": [name]}], "secrets": [name], "hold": [name], "notify": [name],
            "state": {"quota_kib": 16, "shared": [name]}},
        "cost": [{"component": name, "revision": 2, "last_hour": cost, "last_day": cost},
            {"component": name, "revision": 1, "last_hour": null, "last_day": before}],
        "params_schema": {"description": text, "type": "object", "properties": {
            text: {"type": "string", "description": text}, "who": {"enum": [text]},
        }},
    })
}

/// Answers to a change as the API does.
pub(super) fn done(uri: &Uri, headers: &HeaderMap, body: &[u8], sample: &Answer) -> Response {
    let text = sample.text.as_str();
    let kind = headers.get(CONTENT_TYPE);
    let is_deploy = kind.is_some_and(|kind| kind != "application/json");
    let is_guarded = if is_deploy {
        body.windows(7).any(|it| it == b"guarded")
    } else {
        uri.path().contains("guarded") && !body.ends_with(b"\"accept_grants\":true}")
    };
    if is_guarded {
        let problem = json!({"code": "grants_not_accepted", "title": text, "detail": text});
        return (StatusCode::CONFLICT, Json(problem)).into_response();
    }
    let next = uri.query().filter(|it| it.contains("endless")).map(|_| "7");
    Json(match uri.path() {
        path::SESSIONS => {
            let problem = json!({"title": text, "detail": text});
            return (StatusCode::TOO_MANY_REQUESTS, Json(problem)).into_response();
        }
        path::TOKENS => json!({"token": "hst_secret", "id": "a", "name": text}),
        _ if is_deploy || uri.path().ends_with("/rollback") => {
            json!({"component": text, "revision": 1, "digest": text, "handlers": [text], "grants_added": [text],
                "grants_removed": [text], "handlers_removed": [{"handler": text, "jobs": 2}], "stubbed": [text],
                "limits_changed": [{"handler": text, "limit": text, "before": 1, "after": null}]})
        }
        _ if uri.path().starts_with("/api/v1/batches/") => batch(sample),
        _ => json!({"id": ID, "matched": 1, "changed": 1, "refused": 0, "next_cursor": next,
            "refusals": [{"id": text, "code": "conflict", "detail": text}],
            "state": "available", "existing": false, "jobs": [ID]}),
    })
    .into_response()
}

/// Answers as the API does.
pub(super) fn answer(path: &str, sample: &Answer, most: usize) -> Option<Value> {
    let (name, text) = (sample.name.as_str(), sample.text.as_str());
    let page =
        |item: Value| json!({"items": vec![item; sample.items.min(most)], "next_cursor": "7"});
    let spread = spread(1, 2);
    let handler = handler(sample);
    let token = json!({"id": name, "name": name, "created_by": name, "created_at": "2026-05-17T18:30:00Z",
        "verbs": ["read"], "queues": vec![name; sample.items], "handlers": vec![name; sample.items], "from": [name]});
    let revision = json!({"component": name, "revision": 1, "digest": name, "handlers": vec![name; sample.items],
        "deployed_at": "2026-05-17T18:30:00.000Z", "signed_by": name});
    if path == "/healthz" {
        return Some(
            json!({"status": "ok", "version": "1", "uptime_seconds": 1, "isolation": "shared",
            "certificate_days_left": 3.2}),
        );
    }
    let path = path.strip_prefix("/api/v1/")?;
    Some(match path {
        "jobs" => page(job(sample)),
        "jobs/count" => {
            json!({"jobs": 1_234, "complete": false, "oldest": null, "newest": null, "next_cursor": "9"})
        }
        "jobs/01990f3c" | "jobs/01990f3c-1a2b-7000-8000-000000000001" => job(sample),
        "jobs/apart" => {
            let mut apart = job(sample);
            apart["enqueued_at"] = json!("2026-05-17T19:30:00.000Z");
            apart["finished_at"] = json!("2026-05-17T18:30:01.000Z");
            apart
        }
        "jobs/hidden" => {
            let mut hidden = job(sample);
            hidden["id"] = json!("hidden");
            hidden
        }
        "failures" => {
            let cause = json!({"fingerprint": "0a1b2c3d4e5f",
            "handler": name, "kind": "user_error", "user_kind": text, "pattern": text, "jobs": 3,
            "first_at": "2026-05-17T18:30:00Z", "last_at": "2026-05-17T18:30:00Z", "example": ID});
            json!({"examined": 5_000, "complete": false, "items": vec![cause; sample.items]})
        }
        "trends" => {
            json!({"step_seconds": 60, "points": [{"at": "2026-05-17T18:30:00Z", "enqueued": 1,
            "completed": 2, "discarded": 3, "cancelled": 4, "failures": 5, "waiting": 6, "waited_ms": spread,
            "ran_ms": spread}]})
        }
        "tokens" => page(token),
        "audit" => {
            let record = json!({"at": "2026-05-17T18:30:00Z", "principal": text, "address": text, "verb": "cancel",
                "object": text, "outcome": text, "detail": text, "times": 2});
            page(json!({"number": 1, "previous": "0", "hash": "1", "record": record}))
        }
        "schedules" => page(schedule(sample)),
        _ if path.starts_with("schedules/") => of_schedule(path, sample)?,
        "batches" => page(batch(sample)),
        "batches/01990f3c" => batch(sample),
        "limits" => page(limit(sample)),
        "limits/by-customer" => limit(sample),
        "queues" => {
            page(json!({"name": name, "paused": true, "counts": {"available": 3, "discarded": 4}}))
        }
        "handlers" => page(handler),
        "handlers/echo" => handler,
        "components" => page(revision),
        "components/basics" | "components/nightly" => {
            let mut kept = revision;
            kept["current"] = json!(false);
            kept["manifest"] = json!({});
            let mut revisions = vec![kept.clone(); sample.items];
            kept["revision"] = json!(2);
            kept["current"] = json!(true);
            kept["handlers"] = json!(["echo", name]);
            kept["manifest"] = json!({"handlers": {"echo": {"env": [text], "state": {"quota_kib": 16},
                "secrets": [text], "jobs": [{"handlers": [text], "queues": [text]}]}}});
            revisions.insert(0, kept);
            json!({"component": name, "current": 2, "revisions": revisions,
                "nodes": [{"id": name, "name": name, "state": "live", "component": "failed", "reason": text}]})
        }
        "runners" => {
            let pool = json!({"name": name, "node": {"id": name, "name": name}, "wire": name, "restartable": true,
            "queues": vec![name; sample.items], "up": 0, "runners": vec![json!({"executor": name, "state": "down", "address": name,
            "reason": text, "doing": text}); sample.items.min(25)]});
            json!({"items": vec![pool; sample.items.min(5)], "next_cursor": null})
        }
        "nodes" => page(
            json!({"id": name, "name": name, "state": "silent", "version": name, "wires": [name],
            "heartbeat_age_seconds": 1.5, "cells": 2, "slots": 64, "cell_memory_bytes": 3 << 20}),
        ),
        _ if path.ends_with("/attempts") => page(
            json!({"number": 1, "executor": name, "component": name, "fuel": 1_234_567,
            "peak_memory_bytes": 3 << 20, "revision": 7,
            "worker": {"name": text, "ended_at": "2026-05-17T18:30:01.000Z", "read_bytes": 1, "written_bytes": 3 << 20},
            "started_at": "2026-05-17T18:30:00.000Z", "finished_at": "2026-05-17T18:30:01.000Z",
            "duration_ms": 1_000, "outcome": "failed", "failure": failure(sample), "cpu_ms": 0.5}),
        ),
        _ if path.ends_with("/logs") && !path.contains("hidden") => page(
            json!({"seq": 1, "attempt": 1, "at": "2026-05-17T18:30:00.000Z",
            "at_ms": 1, "level": "warn", "source": "log", "message": text, "fields": {text: text}}),
        ),
        _ => return None,
    })
}

fn of_schedule(path: &str, sample: &Answer) -> Option<Value> {
    let text = sample.text.as_str();
    Some(match path {
        "schedules/nightly" => schedule(sample),
        "schedules/nightly/next" => {
            json!({"items": [{"nominal": "2026-05-17T18:30:00+02:00", "fires_at": "2026-05-17T16:30:00Z"}],
                "next_cursor": null})
        }
        "schedules/nightly/firings" => {
            let fired = json!({"nominal": "2026-05-17T18:30:00Z", "at": "2026-05-17T18:30:00Z", "fate": "fired",
                "job": ID});
            let failed = json!({"nominal": "2026-05-17T18:30:00Z", "at": "2026-05-17T18:30:00Z", "fate": "failed",
                "reason": text, "times": 3});
            json!({"items": [failed, fired], "next_cursor": null})
        }
        _ => return None,
    })
}
