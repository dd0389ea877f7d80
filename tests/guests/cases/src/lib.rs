//! The handlers of the cases in `sdk/cases.json`.

use std::io::{BufRead as _, Write as _};
use std::time::Duration;

use guest_sdk::schemars::{self, JsonSchema};
use guest_sdk::{Category, Ctx, Error, NewJob, export_handlers, handler};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

export_handlers!(
    sum, about, fail, throw, again, stop, progress, log, keep, compare, order, report, read, sign,
    hold, large, follow, call_api
);

#[derive(Deserialize, JsonSchema)]
struct Numbers {
    numbers: Vec<i64>,
}

#[derive(JsonSchema, Serialize)]
struct Total {
    total: i64,
}

#[derive(Deserialize)]
struct Fails {
    fails: bool,
}

/// Adds numbers.
#[handler("case.sum", schema)]
fn sum(_ctx: &Ctx, params: Numbers) -> Result<Total, Error> {
    let total = params.numbers.iter().sum();
    Ok(Total { total })
}

#[handler("case.about")]
fn about(ctx: &Ctx, _params: Value) -> Result<Value, Error> {
    let (attempt, attribute) = (ctx.job().attempt, |name| ctx.attribute(name));
    Ok(json!({"attempt": attempt, "team": attribute("team"), "other": attribute("other")}))
}

#[handler("case.fail")]
fn fail(_ctx: &Ctx, params: Value) -> Result<(), Error> {
    let category = match params["category"].as_str() {
        Some("data-quality") => Category::DataQuality,
        _ => Category::UserCode,
    };
    let error = Error::new(category, "NoLuck", "no luck")
        .code("E1")
        .details(&json!({"a": 1}));
    Err(match params["retryable"].as_bool() {
        Some(retryable) => error.retryable(retryable),
        None => error,
    })
}

#[handler("case.throw")]
fn throw(_ctx: &Ctx, _params: Value) -> Result<(), Error> {
    Err(std::io::Error::other("not caught here"))?
}

#[handler("case.again")]
fn again(_ctx: &Ctx, _params: Value) -> Result<(), Error> {
    Err(Error::retry_after_ms("not yet", 5_000))
}

#[handler("case.stop")]
fn stop(ctx: &Ctx, _params: Value) -> Result<(), Error> {
    while ctx.cancelled().is_none() {
        ctx.sleep(Duration::from_millis(10));
    }
    Err(Error::cancelled(&json!({"done": 1})))
}

#[handler("case.progress")]
fn progress(ctx: &Ctx, _params: Value) -> Result<(), Error> {
    for rows in [1_u8, 4] {
        ctx.progress(f32::from(rows) * 10.0, format_args!("{rows} of 10 rows"));
    }
    while ctx.cancelled().is_none() {
        ctx.sleep(Duration::from_millis(10));
    }
    Err(Error::cancelled(&json!({"rows": 4})))
}

#[handler("case.log")]
fn log(ctx: &Ctx, _params: Value) -> Result<(), Error> {
    ctx.log(
        guest_sdk::Level::Info,
        "counted",
        json!({"words": 3, "of": "a file", "ratio": 0.5, "ok": true, "parts": [1, null]}),
    );
    ctx.warn("äö€😀");
    Ok(())
}

#[handler("case.keep")]
fn keep(ctx: &Ctx, params: Fails) -> Result<Value, Error> {
    let count = ctx.state().get("n")?.unwrap_or(0) + 1;
    ctx.state().set("n", &count)?;
    ctx.state().set("n2", &json!({"ä": [null, 0.5]}))?;
    if params.fails {
        ctx.state().now().set("at once", &true)?;
        return Err(std::io::Error::other("asked to fail").into());
    }
    Ok(json!([count, ctx.state().list("n")?]))
}

#[handler("case.compare")]
fn compare(ctx: &Ctx, _params: Value) -> Result<Vec<bool>, Error> {
    let changes = [(None, 1), (Some(7), 3), (Some(1), 2)].iter();
    let swapped = changes.map(|(old, new)| ctx.state().compare_and_set("c", old.as_ref(), new));
    swapped.collect()
}

#[handler("case.order")]
fn order(ctx: &Ctx, params: Fails) -> Result<usize, Error> {
    let job = |row| {
        NewJob::new("case.log")
            .queue("rows")
            .params(&json!({"row": row}))
    };
    let ids = ctx.enqueue_all(&[job(7)?, job(8)?])?;
    if params.fails {
        return Err(std::io::Error::other("asked to fail").into());
    }
    Ok(ids.len())
}

#[handler("case.report")]
fn report(ctx: &Ctx, params: Fails) -> Result<usize, Error> {
    let rows = [("a", 1), ("b", 2)];
    let mut file = ctx.artifacts().create_as("rows.csv", "text/csv")?;
    for (name, count) in rows {
        writeln!(file, "{name},{count}")?;
    }
    file.close()?;
    let mut open = ctx.artifacts().create("open")?;
    open.write_all(b"x")?;
    open.flush()?;
    if params.fails {
        return Err(std::io::Error::other("asked to fail").into());
    }
    Ok(rows.len())
}

#[derive(Deserialize)]
struct FileToRead {
    file: String,
}

#[handler("case.read")]
fn read(ctx: &Ctx, params: FileToRead) -> Result<Vec<String>, Error> {
    let file = ctx.artifacts().open(&params.file)?;
    Ok(file.lines().collect::<Result<_, _>>()?)
}

#[handler("case.sign")]
fn sign(ctx: &Ctx, params: Value) -> Result<usize, Error> {
    let name = params["secret"].as_str().unwrap_or_default();
    Ok(ctx.secret(name)?.len())
}

#[handler("case.hold")]
fn hold(ctx: &Ctx, params: Value) -> Result<(), Error> {
    let limit = params["limit"].as_str().unwrap_or_default();
    let ms = params["ms"].as_u64().unwrap_or(1_500);
    ctx.hold(limit, Duration::from_millis(ms))?;
    Err(Error::retry_after_ms("too many requests", 5_000))
}

#[derive(Deserialize)]
struct Large {
    what: String,
    bytes: usize,
}

#[handler("case.large")]
fn large(ctx: &Ctx, params: Large) -> Result<&'static str, Error> {
    let (text, url) = ("x".repeat(params.bytes), "http://127.0.0.1:1/");
    match &*params.what {
        "body" => drop(ctx.http().post(url).body(text).send()?),
        "header" => drop(ctx.http().get(url).header("x", &text).send()?),
        "url" => drop(ctx.http().get(text).send()?),
        "value" => ctx.state().set_bytes("k", text.as_bytes())?,
        "key" => drop(ctx.state().get_bytes(&text)?),
        "params" => drop(ctx.enqueue(&NewJob::new("case.log").params(&text)?)?),
        "statement" => drop(ctx.sql("shop").query(&text, ())?),
        "line" => {
            ctx.progress(1.0, &text);
            ctx.log(guest_sdk::Level::Info, &text, &[(&*text, &*text)]);
        }
        _ => return Err(Error::new(Category::UserCode, "Large", text)),
    }
    Ok("the attempt continues")
}

#[handler("case.follow")]
fn follow(ctx: &Ctx, params: Value) -> Result<u16, Error> {
    let url = params["url"].as_str().unwrap_or_default();
    let request = ctx
        .http()
        .post(url)
        .json(&json!({"a": 1}))?
        .header("Authorization", "mine")
        .header("X-Key", "mine")
        .header("Accept", "text/plain");
    Ok(request.redirects(20).send()?.status)
}

#[handler("case.call")]
fn call_api(ctx: &Ctx, params: Value) -> Result<Value, Error> {
    let url = params["url"].as_str().unwrap_or_default();
    let request = ctx.http().post(url).json(&json!({"a": 1}))?;
    let response = request.send()?.ok()?;
    Ok(json!({"status": response.status, "body": response.json::<Value>()?}))
}

#[cfg(test)]
mod tests {
    use guest_sdk::{HttpResponse, MockHost};

    use super::*;

    const CASES: &str = include_str!("../../../../sdk/cases.json");

    type Call = fn(&Ctx, &str) -> Result<String, Error>;

    const HANDLERS: &[(&str, Call)] = &[
        ("case.sum", sum::call),
        ("case.about", about::call),
        ("case.fail", fail::call),
        ("case.throw", throw::call),
        ("case.again", again::call),
        ("case.stop", stop::call),
        ("case.progress", progress::call),
        ("case.log", log::call),
        ("case.keep", keep::call),
        ("case.compare", compare::call),
        ("case.order", order::call),
        ("case.report", report::call),
        ("case.read", read::call),
        ("case.sign", sign::call),
        ("case.hold", hold::call),
        ("case.large", large::call),
        ("case.call", call_api::call),
        ("case.follow", follow::call),
    ];

    fn host(given: &Value) -> MockHost {
        let mut host = MockHost::new();
        let pairs = |key: &str| given[key].as_object().cloned().unwrap_or_default();
        for (name, value) in pairs("attributes") {
            host = host.attribute(&name, value.as_str().unwrap());
        }
        for (name, value) in pairs("secrets") {
            host = host.with_secret(&name, value.as_str().unwrap());
        }
        for (name, content) in pairs("files") {
            host = host.with_file(&name, content.as_str().unwrap().as_bytes());
        }
        for limit in given["limits"].as_array().into_iter().flatten() {
            host = host.with_limit(limit.as_str().unwrap());
        }
        if given["redirects"].is_object() {
            let redirects = given["redirects"].clone();
            host = host.answer(move |request| {
                let redirect = &redirects[&request.url];
                let location = redirect[1]
                    .as_str()
                    .map(|to| ("location".to_owned(), to.to_owned()));
                Ok(HttpResponse {
                    status: redirect[0].as_u64().unwrap_or(200).try_into().unwrap(),
                    headers: location.into_iter().collect(),
                    body: Vec::new(),
                })
            });
        }
        if let Some(status) = given["answer"]["status"].as_u64() {
            let answer =
                HttpResponse::json_of(status.try_into().unwrap(), &given["answer"]["json"]);
            host = host.answer(move |_| Ok(answer.clone()));
        }
        if let Some(reason) = given["cancelled"].as_str() {
            host.cancel(reason);
        }
        host
    }

    /// Returns how an attempt ends, as the table says it.
    fn describe_end(result: Result<String, Error>) -> Value {
        match result {
            Ok(result) => json!({"result": serde_json::from_str::<Value>(&result).unwrap()}),
            Err(Error::Retry { reason, after_ms }) => {
                json!({"retry": {"reason": reason, "after_ms": after_ms}})
            }
            Err(Error::Cancelled { partial }) => json!({"cancelled": partial}),
            Err(Error::Failed(failed)) if failed.kind == "invalid_params" => {
                assert_eq!(failed.category, Category::DataQuality);
                json!({"refused": failed.message})
            }
            Err(Error::Failed(failed)) => {
                let category = match failed.category {
                    Category::UserCode => "user-code",
                    Category::DataQuality => "data-quality",
                    Category::Infrastructure => "infrastructure",
                    Category::Configuration => "configuration",
                    Category::Timeout => "timeout",
                };
                json!({"failure": {
                    "category": category, "kind": failed.kind, "message": failed.message, "code": failed.code,
                    "details": failed.details, "retryable": failed.retryable,
                }})
            }
        }
    }

    #[test]
    fn the_mock_host_agrees_with_the_cases() {
        let text = CASES
            .replace("{origin}", "http://api.example.com")
            .replace("{other}", "http://other.example.com");
        let cases: Vec<Value> = serde_json::from_str(&text).unwrap();
        for case in cases {
            let (then, host) = (&case["then"], host(&case["given"]));
            let name = case["handler"].as_str().unwrap();
            let (_, call) = HANDLERS.iter().find(|(it, _)| *it == name).unwrap();
            let params = case["params"].to_string();
            let ended = describe_end(host.run(|ctx| call(ctx, &params)));
            for key in ["result", "retry", "cancelled"] {
                assert_eq!(ended[key], then[key], "{case}: {ended}");
            }
            // The host names the field, from the schema, before a handler is called.
            if !then["refused"].is_null() {
                assert!(ended["refused"].is_string(), "{case}: {ended}");
            }
            for (key, expected) in then["failure"].as_object().into_iter().flatten() {
                assert_eq!(&ended["failure"][key], expected, "{case}: {ended}");
            }
            assert_left(&host, &case);
        }
    }

    fn assert_seen(then: &Value, key: &str, seen: Vec<Value>) {
        if !then[key].is_null() {
            assert_eq!(Value::from(seen), then[key], "{key}");
        }
    }

    fn assert_left(host: &MockHost, case: &Value) {
        let then = &case["then"];
        let logs = host.logs().into_iter().map(|line| {
            let level = format!("{:?}", line.level).to_lowercase();
            json!([level, line.message, line.fields])
        });
        let requests = host.requests().into_iter().map(|it| {
            let body: Value = serde_json::from_slice(&it.body).unwrap_or_default();
            json!({"method": it.method, "url": it.url, "body": body})
        });
        // Numbers that are whole have no point in the table.
        let progress = host.progress().into_iter().map(|(percent, message)| {
            let percent = percent.map(|it| format!("{it}").parse::<Value>().unwrap());
            json!([percent, message])
        });
        let holds = host.holds().into_iter().map(|held| json!(held));
        let sent = host.requests().into_iter().map(|it| {
            let mut names: Vec<String> = it
                .headers
                .iter()
                .map(|(name, _)| name.to_lowercase())
                .collect();
            names.sort();
            json!([it.method, it.url, names.join(" "), it.body.len()])
        });
        assert_seen(&case["then"], "sent", sent.collect());
        assert_seen(&case["then"], "holds", holds.collect());
        assert_seen(&case["then"], "logs", logs.collect());
        assert_seen(&case["then"], "requests", requests.collect());
        assert_seen(&case["then"], "progress", progress.collect());
        for (key, expected) in then["state"].as_object().into_iter().flatten() {
            let kept: Option<Value> = host.state(key);
            assert_eq!(&kept.unwrap_or_default(), expected, "{case}: {key}");
        }
        for name in ["rows.csv", "open"] {
            let kept = host.artifact(name).map(|it| String::from_utf8(it).unwrap());
            let expected = then["artifacts"][name].as_str();
            assert_eq!(kept.as_deref(), expected, "{case}: {name}");
        }
        if !then["enqueued"].is_null() {
            let enqueued = serde_json::to_value(host.enqueued()).unwrap();
            assert_eq!(enqueued, then["enqueued"], "{case}");
        }
    }
}
