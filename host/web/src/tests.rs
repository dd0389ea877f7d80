//! All pages over an API that answers from a table: which address shows what, and that no text of a guest becomes
//! part of a page.

mod answers;
mod details;
mod hostile;
mod roles;

use std::future::poll_fn;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::Request;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, LOCATION};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use host_core::access::{Principal, Role};
use host_core::port::Clock;
use host_core::time::Time;
use host_http::budget::ByteBudget;
use host_http::gate::Caller;
use serde_json::json;
use tower_service::Service;

use self::answers::{Answer, answer, done};
use crate::page;

/// A clock that stands still.
struct Still;

impl Clock for Still {
    fn now(&self) -> Time {
        Time(1_800_000_000_000)
    }

    fn wall(&self) -> Time {
        self.now()
    }
}

const ID: &str = "01990f3c-1a2b-7000-8000-000000000001";

/// The pages that show something.
const PAGES: &[&str] = &[
    "/",
    "/jobs",
    "/jobs?q=state:discarded",
    "/jobs?q=colour:red",
    "/jobs/01990f3c",
    "/queues",
    "/schedules",
    "/schedules/nightly",
    "/batches",
    "/batches/01990f3c",
    "/limits",
    "/limits/by-customer",
    "/handlers",
    "/handlers/echo?job=01990f3c",
    "/components",
    "/components/basics",
    "/executors",
    "/nodes",
    "/?span=day",
    "/failures",
    "/find",
    "/find?q=zzz",
    "/jobs/01990f3c?attempt=1&find=zzz",
    "/jobs?q=queue:a&live=on",
    "/tokens",
    "/audit",
    "/jobs/missing",
];

/// Returns the pages over such an API.
fn pages(text: &str) -> Router {
    pages_of(Answer::once(text))
}

fn pages_of(sample: Answer) -> Router {
    let api = Router::new().fallback(any(
        move |method: Method, uri: Uri, headers: HeaderMap, body: Bytes| {
            let sample = sample.clone();
            async move {
                let text = sample.text.as_str();
                assert_eq!(headers[HOST], "localhost", "who asks is passed on");
                if method == Method::POST || method == Method::PUT {
                    return done(&uri, &headers, &body, &sample);
                }
                let limit = uri
                    .query()
                    .and_then(|it| it.split_once("limit="))
                    .and_then(|(_, rest)| rest.split('&').next()?.parse().ok());
                if let Some(answer) = answer(uri.path(), &sample, limit.unwrap_or(usize::MAX)) {
                    return axum::Json(answer).into_response();
                }
                let problem = json!({"title": sample.name, "detail": text, "next": text});
                let status = match uri.path() {
                    "/readyz" => StatusCode::SERVICE_UNAVAILABLE,
                    _ => StatusCode::NOT_FOUND,
                };
                (status, axum::Json(problem)).into_response()
            }
        },
    ));
    let routes = super::group(api, Arc::new(Still), ByteBudget::default())
        .routes
        .into_iter();
    routes.fold(Router::new(), |router, route| {
        router.route(route.path, route.call)
    })
}

async fn ask(pages: &Router, request: Request) -> (Response<()>, String) {
    let mut pages = pages.clone();
    poll_fn(|context| Service::<Request>::poll_ready(&mut pages, context))
        .await
        .unwrap();
    let Ok(answer) = pages.call(request).await;
    let (parts, body) = answer.into_parts();
    let bytes = to_bytes(body, usize::MAX).await.unwrap();
    (
        Response::from_parts(parts, ()),
        String::from_utf8(bytes.to_vec()).unwrap(),
    )
}

async fn get(pages: &Router, path: &str) -> (Response<()>, String) {
    let request = Request::get(path).header(HOST, "localhost");
    ask(pages, request.body(Body::empty()).unwrap()).await
}

async fn post(pages: &Router, path: &str, form: &str) -> (Response<()>, String) {
    let request = Request::post(path)
        .header(HOST, "localhost")
        .header(CONTENT_TYPE, "application/x-www-form-urlencoded");
    ask(pages, request.body(Body::from(form.to_owned())).unwrap()).await
}

#[tokio::test]
async fn every_page_is_html_that_loads_nothing_from_elsewhere() {
    let pages = pages("plain");
    for path in PAGES {
        let (answer, page) = get(&pages, path).await;
        let expected = match *path {
            "/jobs/missing" => StatusCode::NOT_FOUND,
            "/jobs?q=colour:red" => StatusCode::BAD_REQUEST,
            _ => StatusCode::OK,
        };
        assert_eq!(answer.status(), expected, "{path}: {page}");
        let policy = answer.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none';") && !policy.contains("unsafe"));
        assert!(page.starts_with("<!doctype html>"), "{path}");
        assert!(
            !page.contains("=\"http://") && !page.contains("https://"),
            "{path}"
        );
        let has_lines = *path != "/find" && expected == StatusCode::OK;
        for line in ["\"cli\">host --server http://localhost ", "\"curl\">curl "] {
            assert_eq!(page.contains(line), has_lines, "{path} has {line}");
        }
        // Charts, and lists of jobs that are selected.
        let (section, _) = path.split_once('?').unwrap_or((path, ""));
        let has_own = ["/", "/jobs"].contains(&section);
        let scripts = ["look", "live", "copy", "palette"].len() + usize::from(has_own);
        assert!(
            !page.contains("style=") && page.matches("<script").count() == scripts,
            "{path}"
        );
        assert!(page.len() < 100 << 10, "{path}: {} bytes", page.len());
    }
}

#[tokio::test]
async fn numbers_are_shown_digit_by_digit() {
    let (_, page) = get(&pages("plain"), "/jobs/01990f3c").await;
    assert!(page.contains("9007199254740993"), "{page}");
}

/// The clock of the node that accepted a job is an hour ahead of the one that ran it.
#[tokio::test]
async fn clocks_apart_make_no_negative_waiting_times() {
    let (_, page) = get(&pages("plain"), "/jobs/apart").await;
    assert!(page.contains("<span class=\"zero\">0 ms</span>"), "{page}");
    let is_negative = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    for before in [">-", " -", "\"-"] {
        let negative = page.split(before).skip(1).find(|text| is_negative(text));
        assert_eq!(negative, None);
    }
}

#[tokio::test]
async fn a_log_that_cannot_be_read_is_not_shown_as_empty() {
    let (answer, page) = get(&pages("not for you"), "/jobs/hidden").await;
    assert_eq!(answer.status(), StatusCode::OK);
    assert!(!page.contains("Nothing is logged"), "{page}");
    assert!(
        page.contains("role=\"alert\"><bdi>not for you</bdi>"),
        "{page}"
    );
}

#[tokio::test]
async fn a_node_that_takes_no_work_is_on_the_overview() {
    let (_, page) = get(&pages("its disk is full"), "/").await;
    assert!(
        page.contains("this node takes no work: its disk is full"),
        "{page}"
    );
}

#[tokio::test]
async fn the_overview_says_what_cells_have_and_use() {
    let (_, page) = get(&pages("plain"), "/").await;
    assert!(page.contains("0 of 128 slots in <a href=\"/nodes\">2 cells</a> are in use. Cells use 3.0 MiB of memory."), "{page}");
}

#[tokio::test]
async fn what_needs_attention_leads_to_where_it_is_mended() {
    let (_, page) = get(&pages("nightly"), "/").await;
    for concern in [
        "href=\"/nodes\"><bdi>the certificate of this node expires in 3 days",
        "href=\"/components/nightly\"><bdi>no node can run jobs of nightly, revision 2: nightly<",
        "href=\"/schedules/nightly\"><bdi>schedule nightly: last firing failed: nightly<",
        "href=\"/queues\"><bdi>nightly is paused with 3 jobs waiting<",
        "href=\"/executors\"><bdi>no runner of nightly takes work: nightly<",
        "href=\"/handlers/nightly\"><bdi>nightly failed in 9 of 10 attempts",
        "href=\"/jobs?q=state%3Adiscarded+failure%3Anightly\"><bdi>nightly</bdi></a> 1<",
    ] {
        assert!(page.contains(concern), "{concern}: {page}");
    }
}

#[tokio::test]
async fn a_form_has_a_limit_and_all_its_fields() {
    let pages = pages("plain");
    let (answer, page) = post(&pages, "/jobs", "queue=mail").await;
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{page}");
    assert!(page.contains("handler: missing"), "{page}");
    let (answer, page) = post(&pages, "/queues/mail", "name=mail").await;
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{page}");
    assert!(page.contains("the form lacks a field"), "{page}");
    let large = format!("handler=echo&params={}", "1".repeat(2 << 20));
    let (answer, page) = post(&pages, "/jobs", &large).await;
    assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE, "{page}");
    assert!(page.starts_with("<!doctype html>"), "{page}");
}

/// Checks that a form changes something and then leads to another page.
async fn leads_to(pages: &Router, path: &str, form: &str, to: &str) {
    let (answer, page) = post(pages, path, form).await;
    assert_eq!(
        answer.status(),
        StatusCode::SEE_OTHER,
        "{path} {form}: {page}"
    );
    assert_eq!(answer.headers()[LOCATION], to, "{path} {form}");
}

/// Checks that a form is answered with a page that has a text.
async fn shows(pages: &Router, path: &str, form: &str, text: &str) {
    let (answer, page) = post(pages, path, form).await;
    assert_eq!(answer.status(), StatusCode::OK, "{path} {form}: {page}");
    assert!(page.contains(text), "{path} {form}: {page}");
}

async fn is_refused(pages: &Router, path: &str, form: &str) {
    let (answer, _) = post(pages, path, form).await;
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{path} {form}");
}

#[tokio::test]
async fn changes_go_to_the_api_and_then_to_a_page() {
    let pages = pages("plain");
    let job = format!("/jobs/{ID}");
    let after = |action| format!("{job}?done={action}");
    for (path, form, to) in [
        (
            "/jobs",
            "handler=echo&params=%7B%7D",
            after("enqueued").as_str(),
        ),
        (&job, "action=cancel", &after("cancel")),
        (&job, "action=priority&value=3", &after("priority")),
        (&job, "action=purge&sure=true", "/jobs"),
        ("/queues/mail", "action=pause", "/queues"),
        ("/batches/a", "action=cancel&sure=true", "/batches/a"),
        (
            "/components/guarded",
            "action=rollback-with-grants&value=1&sure=true",
            "/components/guarded",
        ),
        ("/nodes/n", "action=drain&sure=true", "/nodes"),
        (
            "/executors/python",
            "action=restart&sure=true&value=n",
            "/executors",
        ),
    ] {
        leads_to(&pages, path, form, to).await;
    }
    for (path, form, shown) in [
        (job.as_str(), "action=purge", "Purge it"),
        ("/nodes/n", "action=drain", "Drain it"),
        ("/tokens", "action=revoke&id=a", "Revoke"),
        ("/tokens", "action=rotate&id=a", "Rotate"),
        (
            "/tokens",
            "action=create&name=x&role=viewer&queues=a+b&days=7",
            "hst_secret",
        ),
        ("/executors/python", "action=restart", "Restart them"),
        (
            "/components/basics",
            "action=rollback&value=1",
            "Go to revision 1",
        ),
        (
            "/components/guarded",
            "action=rollback&value=1&sure=true",
            "name=\"action\" value=\"rollback-with-grants\"",
        ),
        (
            "/jobs/change",
            "action=retry&q=state:discarded",
            "Type <code>retry 1234</code>",
        ),
        (
            "/jobs/change",
            "action=retry&q=state:discarded&sure=true&typed=retry",
            "The typed text does not match",
        ),
        (
            "/jobs/change",
            "action=retry&q=state:discarded&sure=true&typed=retry+1234",
            "1 job changed",
        ),
        (
            "/jobs/change",
            "action=cancel&q=queue:a",
            "1,234 pending, at least 1,234 scheduled",
        ),
        (
            "/jobs/change",
            "action=cancel&q=queue:a&sure=true&typed=cancel+6170",
            "4 jobs changed of 6,170 so far",
        ),
    ] {
        shows(&pages, path, form, shown).await;
    }
    for (path, form) in [
        (job.as_str(), "action=explode"),
        ("/jobs", "handler=echo&params=%7B"),
        ("/jobs/change", "action=retry&q=state:running"),
        ("/components/basics", "action=rollback&value=x"),
        ("/tokens", "action=create&name=x&role=viewer&days=0"),
    ] {
        is_refused(&pages, path, form).await;
    }
}

#[tokio::test]
async fn schedules_and_selected_jobs_are_changed() {
    let pages = pages("plain");
    let job = format!("/jobs/{ID}");
    for (path, form, to) in [
        ("/schedules/nightly", "action=pause", "/schedules/nightly"),
        ("/schedules/nightly", "action=trigger", job.as_str()),
        (
            "/schedules",
            "name=new&handler=echo&every=10m",
            "/schedules/new",
        ),
    ] {
        leads_to(&pages, path, form, to).await;
    }
    for (path, form, shown) in [
        (
            "/schedules/nightly",
            "action=remove",
            "jobs it has enqueued stay",
        ),
        ("/batches/01990f3c", "action=cancel", "also those that run"),
        (
            "/limits/by-customer",
            "action=remove",
            "Jobs no longer wait for it",
        ),
        (
            "/jobs/change",
            "action=priority&priority=3&q=state:available",
            "Type <code>priority 1234</code>",
        ),
        (
            "/jobs/change",
            "action=cancel&selection=true&id=a&id=b&q=queue:x",
            "Cancel 2 jobs",
        ),
        (
            "/jobs/change",
            "action=cancel&selection=true&id=01990f3c&id=01990f3c&q=queue:x&sure=true",
            "2 jobs changed",
        ),
    ] {
        shows(&pages, path, form, shown).await;
    }
    for (path, form) in [
        (
            "/jobs/change",
            "action=cancel&selection=true&q=state:available",
        ),
        (
            "/jobs/change",
            "action=priority&priority=10&q=state:available",
        ),
        ("/schedules", "name=nightly&handler=echo&every=10m"),
        ("/schedules", "name=new&handler=echo&every=10m&params=%7B"),
    ] {
        is_refused(&pages, path, form).await;
    }
}

/// One page does a part of a change. The next one continues where it stopped, unless the user says not to.
#[tokio::test]
async fn a_change_of_many_goes_on_until_it_is_stopped() {
    let pages = pages("plain");
    let begin = "action=cancel&q=queue:endless&list=queue:endless&sure=true&typed=cancel+6170";
    let (_, page) = post(&pages, "/jobs/change", begin).await;
    for part in [
        "4 jobs changed of 6,170 so far",
        "name=\"state\" value=\"pending\"",
        "name=\"cursor\" value=\"7\"",
        "name=\"q\" value=\"queue:endless until:20",
        "name=\"list\" value=\"queue:endless\"",
        ">Stop</button>",
        "/assets/continue.js",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let next =
        "action=cancel&q=queue:endless&sure=true&state=running&cursor=7&changed=4&total=6170";
    shows(
        &pages,
        "/jobs/change",
        next,
        "8 jobs changed of 6,170 so far",
    )
    .await;
    let stop = format!("{next}&stop=true");
    let (_, page) = post(&pages, "/jobs/change", &stop).await;
    assert!(
        page.contains("Stopped: 4 jobs changed; the others stay as they are"),
        "{page}"
    );
    assert!(!page.contains("<form method"), "{page}");
}

/// A page marks no more jobs than it shows.
#[tokio::test]
async fn as_many_jobs_are_selected_as_a_page_shows() {
    let pages = pages("plain");
    let form = "action=cancel&selection=true&q=queue:x".to_owned();
    let full = form + &"&id=01990f3c".repeat(50);
    shows(&pages, "/jobs/change", &full, "Cancel 50 jobs").await;
    for more in ["&id=01990f3c", "&id=01990f3c&sure=true"] {
        is_refused(&pages, "/jobs/change", &(full.clone() + more)).await;
    }
}

/// A change of all jobs means those that were on the page, not those that come later.
#[tokio::test]
async fn a_change_of_many_ends_at_the_time_of_its_question() {
    let (_, page) = post(
        &pages("x"),
        "/jobs/change",
        "action=purge&q=state:completed",
    )
    .await;
    assert!(
        page.contains("name=\"q\" value=\"state:completed until:20"),
        "{page}"
    );
}

/// Every page has a limit, whatever others write and however much there is: the longest names, texts that are
/// escaped, and long lists.
#[tokio::test]
async fn the_largest_pages_are_at_most_100_kb() {
    for name in ["n".repeat(128), "a/:".repeat(42)] {
        let pages = pages_of(Answer {
            name,
            text: "<'&x".repeat(5 << 8),
            items: 120,
        });
        for path in PAGES {
            let (answer, page) = get(&pages, path).await;
            assert_ne!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR, "{path}");
            let shown = page.len();
            assert!(shown <= page::PAGE_BYTES_MAX, "{path}: {shown} bytes");
            if *path == "/queues" {
                assert!(page.contains("href=\"/queues?from="), "{page}");
            }
        }
    }
}

/// The parts of a list follow each other without a gap.
#[tokio::test]
async fn the_parts_of_a_list_are_all_of_it() {
    let sample = Answer {
        items: 250,
        ..Answer::once("plain")
    };
    let pages = pages_of(sample);
    let (mut at, mut rows, mut parts) = ("/handlers".to_owned(), 0, 0);
    loop {
        let (_, page) = get(&pages, &at).await;
        rows += page.matches("<a href=\"/handlers/plain\">").count();
        parts += 1;
        let next = page.split_once("class=\"next\"><a href=\"/handlers?from=");
        let Some((number, _)) = next.and_then(|(_, rest)| rest.split_once('"')) else {
            break;
        };
        at = format!("/handlers?from={number}");
    }
    assert_eq!((rows, parts), (250, 3));
}
