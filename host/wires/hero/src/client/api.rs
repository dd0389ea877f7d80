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
use host_http::route;
use host_http::route::{Description, Group, Route, RoutePorts};

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
    let routes = all_routes().map(|route| route.with_state(Arc::clone(&shared)));
    Group {
        prefix: "/api/v1/hero",
        render: problem::render,
        routes: routes.into(),
    }
}

fn all_routes() -> [Route<Shared>; 9] {
    [
        route!(Verb::Enqueue, submit::submit),
        route!(Verb::Read, list::list),
        route!(Verb::ReadPayload, list::show),
        route!(Verb::ReadPayload, list::wait).long_running(),
        route!(Verb::ReadPayload, logs::logs),
        route!(Verb::Cancel, steer::stop).recorded(),
        route!(Verb::Retry, steer::requeue).recorded(),
        route!(Verb::Read, list::worker),
        route!(Verb::Operate, steer::requeue_stale).recorded(),
    ]
}

/// Describes the routes.
pub(crate) fn description() -> Description {
    Description::new(&all_routes(), problems::KINDS)
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
