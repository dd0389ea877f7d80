//! The jobs of Hero dispatchers, in the Redis that this host is configured for: the document's
//! operations as requests. Knows no store: Redis is the truth about these jobs.

pub(super) mod list;
pub(super) mod logs;
pub(super) mod steer;
pub(super) mod submit;
mod view;

use std::path::PathBuf;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use host_core::time::Time;
use host_protocols::hero::Refusal;
use host_protocols::hero::client::JobView;
use host_protocols::hero::client::live::{Client, ClientError};

use super::Shared;
use super::extract::segment;
use super::problem::{Code, Problem};

/// How many characters of an id are shown in a refusal.
const ID_CHARS: usize = 36;

/// What these requests are answered from.
#[derive(Clone)]
pub struct Hero {
    /// Talks to Redis.
    pub client: Client,
    /// The folder of log files, `None` if jobs may name none.
    pub log_dir: Option<PathBuf>,
}

/// The id of a Hero job in the path, in full.
pub(super) struct HeroId(String);

impl FromRequestParts<Shared> for HeroId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Problem> {
        Self::of(shared, segment(parts, shared).await?)
    }
}

impl HeroId {
    /// Reads an id. Of a request with a body after that: a connection on which one lies unread is
    /// closed, which whoever uses it again is not told.
    fn of(shared: &Shared, text: String) -> Result<Self, Problem> {
        // Without Redis, no id is any better.
        hero(shared)?;
        match uuid::Uuid::try_parse(&text) {
            Ok(_) if text.len() == ID_CHARS => Ok(Self(text)),
            _ => {
                let shown: String = text.chars().take(ID_CHARS).collect();
                let detail = format!("{shown:?} is no id of a Hero job: those are UUIDs, in full");
                Err(Problem::new(Code::HeroJobNotFound, detail))
            }
        }
    }
}

/// Returns what the requests are answered from, or says what is to be configured.
fn hero(shared: &Shared) -> Result<&Hero, Problem> {
    shared.api.hero.as_ref().ok_or_else(|| {
        let detail = "no Redis is configured: protocol.hero.url (HOST_HERO_URL) names none";
        Problem::new(Code::HeroOff, detail)
    })
}

/// Returns the time as other programs at the same Redis see it.
fn wall(shared: &Shared) -> Time {
    shared.api.clock.wall()
}

/// Returns a job with all its fields.
async fn find(shared: &Shared, id: &str) -> Result<JobView, Problem> {
    hero(shared)?
        .client
        .job(id)
        .await?
        .ok_or_else(|| unknown(id))
}

fn unknown(id: &str) -> Problem {
    Problem::new(Code::HeroJobNotFound, format!("Redis has no job {id}"))
}

impl From<ClientError> for Problem {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Away(why) => Self::new(Code::HeroRedisAway, why),
            ClientError::Refused(refusal) => refusal.into(),
            ClientError::Full => Self::new(Code::Busy, error.to_string()),
        }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let code = match refusal.code() {
            "E_DEP_CYCLE" => Code::DependencyCycle,
            "E_JOB_ENDED" => Code::HeroJobEnded,
            "E_JOB_BUSY" => Code::HeroJobBusy,
            "E_REPLY" => Code::HeroRedisAway,
            _ => Code::InvalidRequest,
        };
        Self::new(code, refusal.text())
    }
}
