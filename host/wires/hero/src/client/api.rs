//! The jobs of Hero dispatchers in the configured Redis: the document's operations as HTTP
//! requests. Knows no store, because these jobs are kept in Redis only.

pub(crate) mod list;
pub(crate) mod logs;
pub(crate) mod path;
mod problems;
pub(crate) mod steer;
pub(crate) mod submit;
pub(crate) mod view;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use host_core::access::Verb;
use host_core::time::Time;
use host_http::extract::TextInPath;
use host_http::problem::{self, Problem};
use host_http::route::{Description, Group, Route, RoutePorts};
use utoipa::OpenApi;

use self::problems::{HERO_JOB_NOT_FOUND, HERO_OFF, unknown};
use crate::client::JobView;
use crate::client::live::Client;

/// How many characters of an id are shown in a refusal.
const ID_CHARS: usize = 36;

/// What these requests use.
#[derive(Clone)]
pub(crate) struct Source {
    pub(crate) client: Client,
    /// The folder for log files; `None` if jobs must not have any.
    pub(crate) log_dir: Option<PathBuf>,
}

/// The state that all requests share.
type Shared = Arc<State>;

struct State {
    source: Option<Source>,
    ports: RoutePorts,
}

/// Returns the routes. Without a Redis, they answer how to configure one.
pub(crate) fn routes(source: Option<Source>, ports: RoutePorts) -> Group {
    let shared = Shared::new(State { source, ports });
    let routes: [Route<Shared>; 9] = [
        Route::post(Verb::Enqueue, path::JOBS, submit::submit),
        Route::get(Verb::Read, path::JOBS, list::list),
        Route::get(Verb::ReadPayload, path::JOB, list::show),
        Route::get(Verb::ReadPayload, path::WAIT, list::wait).long_running(),
        Route::get(Verb::ReadPayload, path::LOGS, logs::logs),
        Route::post(Verb::Cancel, path::STOP, steer::stop)
            .body_optional()
            .recorded(),
        Route::post(Verb::Retry, path::REQUEUE, steer::requeue)
            .body_optional()
            .recorded(),
        Route::get(Verb::Read, path::WORKER, list::worker),
        Route::post(Verb::Operate, path::STALE, steer::requeue_stale)
            .body_optional()
            .recorded(),
    ];
    let routes = routes.map(|route| route.with_state(Arc::clone(&shared)));
    Group {
        prefix: "/api/v1/hero",
        render: problem::render,
        routes: routes.into(),
    }
}

/// The description of all routes.
#[derive(OpenApi)]
#[openapi(paths(
    submit::submit,
    list::list,
    list::show,
    list::wait,
    logs::logs,
    steer::stop,
    steer::requeue,
    list::worker,
    steer::requeue_stale,
))]
struct Document;

/// Describes the routes.
pub(crate) fn description() -> Description {
    Description {
        document: Document::openapi(),
        kinds: problems::KINDS,
    }
}

/// The id of a Hero job in the path, in full.
struct HeroId(String);

impl FromRequestParts<Shared> for HeroId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Problem> {
        let TextInPath(text) = TextInPath::from_request_parts(parts, shared).await?;
        Self::of(shared, text)
    }
}

impl HeroId {
    /// Reads an id. A request with a body must read the body first: if it is left unread, the
    /// connection is closed, and the client notices that only at its next request.
    fn of(shared: &Shared, text: String) -> Result<Self, Problem> {
        // A missing Redis is the first thing to correct.
        hero(shared)?;
        match uuid::Uuid::try_parse(&text) {
            Ok(_) if text.len() == ID_CHARS => Ok(Self(text)),
            _ => {
                let shown: String = text.chars().take(ID_CHARS).collect();
                let detail = format!("{shown:?} is not a Hero job id: expected a full UUID");
                Err(Problem::new(&HERO_JOB_NOT_FOUND, detail))
            }
        }
    }
}

/// Returns the source of the answers, or explains what to configure.
fn hero(shared: &Shared) -> Result<&Source, Problem> {
    shared.source.as_ref().ok_or_else(|| {
        let detail = "no Redis is configured; set protocol.hero.url (HOST_HERO_URL)";
        Problem::new(&HERO_OFF, detail)
    })
}

/// Returns the wall clock's time, which other programs at the same Redis use.
fn wall(shared: &Shared) -> Time {
    shared.ports.clock.wall()
}

/// Reads a job with all its fields.
async fn find(shared: &Shared, id: &str) -> Result<JobView, Problem> {
    let job = hero(shared)?.client.job(id).await?;
    job.ok_or_else(|| unknown(id))
}
