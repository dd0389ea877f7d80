//! Who may use the API: tokens, and the users of the local socket. All tokens are in memory, so that known ones need no
//! store. What other nodes change is read twice a second.

mod bucket;
mod denials;
mod failures;
pub(crate) mod first;
pub(crate) mod session;

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use futures_util::future::BoxFuture;
use host_core::access::{Principal, Verb, Verbs};
use host_core::secret::hide_tokens;
use host_core::time::Time;
use host_dispatch::Dispatch;
use host_engine::audit::{AddNote, DONE, Note};
use host_engine::node::Standing;
use host_engine::table::Range;
use host_engine::token::{
    KeptToken, Proof, RevokeToken, Rights, Token, TokenHash, TokenId, TokenText, UseTokens,
};
use host_engine::{Ask as _, StoreError};
use host_http::gate::{AccessRecord, CONNECT, Caller, Gate, request_id};
use host_http::peer::Peer;
use host_http::refusal::Refusal;
use host_http::share::Share;
use host_runtime::clock::Clock;
use parking_lot::{Mutex, RwLock};
use rustix::process::geteuid;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use self::bucket::Bucket;
use self::denials::Denials;
use self::failures::Failures;

pub use self::first::{ADMIN_TOKEN, FirstTokenError};

/// How often a node reads which tokens others have changed, and ends those that have expired.
const READ_EVERY: Duration = Duration::from_millis(400);
const _: () = assert!(
    READ_EVERY.as_millis() * 2 < 1_000,
    "a revocation holds within a second"
);

/// How often denials are stored, and the last uses of tokens if it is time.
const STORE_EVERY: Duration = Duration::from_millis(400);

/// How often a second a node asks the store because a request has a token that it does not know.
const LOOKUPS_PER_SECOND: u32 = 20;

/// How often the last uses of tokens are stored.
const USES_EVERY_MS: u64 = 60_000;

/// How long tokens are kept after their end, in milliseconds: 30 days. And how many are removed at a time.
const KEPT_AFTER_END_MS: i64 = 30 * 24 * 3_600_000;
const REMOVED_AT_ONCE: usize = 100;

/// How long a host that stops waits until the last denials and uses are stored.
const REST_TIMEOUT: Duration = Duration::from_secs(2);

/// How clients of the API authenticate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthMode {
    /// Not at all: anyone who connects is an administrator.
    #[default]
    None,
    /// By a token, or as the host's user on the local socket.
    Tokens,
}

/// A token in use.
struct Live {
    token: Token,
    principal: Arc<Principal>,
    /// By the hash of the token or session: cancelled when it is no longer valid.
    over: Vec<(TokenHash, CancellationToken)>,
    used: Arc<Used>,
}

/// How a token is used at this node.
#[derive(Default)]
struct Used {
    bucket: Mutex<Bucket>,
    share: Share,
    /// When it was used last; 0 for never. In milliseconds since the epoch.
    at_ms: AtomicI64,
    stored_ms: AtomicI64,
}

impl Live {
    /// Uses a token, in the place of what it was before. Those who came with what still counts may continue, if it allows
    /// the same.
    fn new(kept: KeptToken, before: Option<&Self>) -> Self {
        let KeptToken { token, used_at } = kept;
        let same = before.filter(|before| before.token.rights == token.rights);
        let over = |proof: Proof| {
            let over = same.and_then(|before| before.over(&proof.hash));
            (proof.hash, over.unwrap_or_default())
        };
        let live = Self {
            principal: Arc::new(token.principal()),
            over: token.proofs().map(over).collect(),
            used: before.map_or_else(Arc::default, |before| Arc::clone(&before.used)),
            token,
        };
        if let Some(at) = used_at {
            live.used.at_ms.fetch_max(at.0, Ordering::Relaxed);
            live.used.stored_ms.fetch_max(at.0, Ordering::Relaxed);
        }
        if let Some(before) = before {
            before.end(|hash| same.is_none() || live.over(hash).is_none());
        }
        live
    }

    fn over(&self, hash: &TokenHash) -> Option<CancellationToken> {
        let found = self.over.iter().find(|(of, _)| of.matches(hash));
        found.map(|(_, over)| over.clone())
    }

    /// Ends the requests and streams that were admitted by such proofs.
    fn end(&self, which: impl Fn(&TokenHash) -> bool) {
        for (_, over) in self.over.iter().filter(|(hash, _)| which(hash)) {
            over.cancel();
        }
    }

    fn snapshot(&self) -> KeptToken {
        let used_ms = self.used.at_ms.load(Ordering::Relaxed);
        KeptToken {
            token: self.token.clone(),
            used_at: (used_ms > 0).then_some(Time(used_ms)),
        }
    }
}

type Table = HashMap<TokenId, Arc<Live>>;

/// Knows who may use the API. Cloning shares it.
#[derive(Clone)]
pub struct Auth(Arc<Inner>);

struct Inner {
    mode: AuthMode,
    clock: Clock,
    dispatch: Dispatch,
    anyone: Arc<Principal>,
    /// Administrators by their user.
    users: [(u32, Arc<Principal>); 2],
    table: RwLock<Table>,
    failures: Mutex<Failures>,
    denials: Mutex<Denials>,
    /// How many nodes share the rates of tokens.
    nodes: AtomicU32,
    /// The version of the tokens that this node has read last.
    seen: AtomicU64,
    /// How often unknown tokens are looked up in the store.
    lookup_budget: Mutex<Bucket>,
    /// Held while tokens are read, so that an older reading does not replace a newer one.
    reading: tokio::sync::Mutex<()>,
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Auth").field(&self.0.mode).finish()
    }
}

impl Auth {
    /// Makes a gate that knows no token yet.
    pub fn new(mode: AuthMode, dispatch: Dispatch, clock: Clock) -> Self {
        let admin = |uid: u32| {
            let name = format!("uid:{uid}");
            let principal = Principal {
                name,
                ..Principal::anyone()
            };
            (uid, Arc::new(principal))
        };
        Self(Arc::new(Inner {
            mode,
            clock,
            dispatch,
            anyone: Arc::new(Principal::anyone()),
            users: [admin(geteuid().as_raw()), admin(0)],
            table: RwLock::default(),
            failures: Mutex::default(),
            denials: Mutex::default(),
            nodes: AtomicU32::new(1),
            seen: AtomicU64::new(0),
            lookup_budget: Mutex::default(),
            reading: tokio::sync::Mutex::default(),
        }))
    }

    /// Returns whether requests need tokens.
    pub(crate) fn requires_tokens(&self) -> bool {
        self.0.mode == AuthMode::Tokens
    }

    /// Reads all tokens again. After a change of tokens this must succeed before the change is answered.
    pub async fn reload(&self) -> Result<(), StoreError> {
        let _guard = self.0.reading.lock().await;
        let kept = self.0.dispatch.list::<KeptToken>(Range::all()).await?;
        let mut table = self.0.table.write();
        let mut before = std::mem::take(&mut *table);
        *table = kept
            .records
            .into_iter()
            .map(|kept| {
                let id = kept.token.id.clone();
                let live = match before.remove(&id) {
                    Some(live) if live.token == kept.token => live,
                    live => Arc::new(Live::new(kept, live.as_deref())),
                };
                (id, live)
            })
            .collect();
        // What is left was revoked.
        for live in before.values() {
            live.end(|_| true);
        }
        Ok(())
    }

    /// Follows what other nodes change, and stores this node's denials and last uses, until `stopping`. Storing never
    /// delays a revocation made elsewhere.
    pub async fn run(self, stopping: CancellationToken) {
        tokio::join!(self.follow(&stopping), self.store(&stopping));
    }

    /// Follows what other nodes change, and ends what is over. Only reads.
    pub(crate) async fn follow(&self, stopping: &CancellationToken) {
        while self.requires_tokens() && after(READ_EVERY, stopping).await {
            // What cannot be read now is read next time.
            let _ = self.refresh().await;
            self.end_those_over(self.0.clock.now());
            if let Ok(nodes) = self.0.dispatch.read(|reader| reader.nodes()).await {
                let live = nodes
                    .iter()
                    .filter(|node| node.standing() == Standing::Live);
                self.share_among(live.count());
            }
        }
    }

    /// Stores denials and last uses, and removes what ended long ago.
    async fn store(&self, stopping: &CancellationToken) {
        let mut stored_at = self.0.clock.now();
        while after(STORE_EVERY, stopping).await {
            let now = self.0.clock.now();
            self.record_denials(now).await;
            if self.requires_tokens() && now.since_ms(stored_at) >= USES_EVERY_MS {
                stored_at = now;
                self.store_uses().await;
                self.remove_those_over(now).await;
            }
        }
    }

    /// Stores the denials and last uses that wait for it. For a host that stops.
    pub(crate) async fn store_rest(&self) {
        let counted_to_now = self.0.clock.now().plus_ms(denials::WINDOW_MS);
        let storing = async {
            self.record_denials(counted_to_now).await;
            self.store_uses().await;
        };
        // A store that does not answer keeps no host from stopping.
        let _ = tokio::time::timeout(REST_TIMEOUT, storing).await;
    }

    /// Reads the tokens if another node has changed them since this one last read them.
    async fn refresh(&self) -> Result<(), StoreError> {
        let version = self
            .0
            .dispatch
            .read(|reader| reader.access_version())
            .await?;
        if version != self.0.seen.load(Ordering::Relaxed) {
            self.reload().await?;
            self.0.seen.store(version, Ordering::Relaxed);
        }
        Ok(())
    }

    fn end_those_over(&self, now: Time) {
        for live in self.0.table.read().values() {
            let is_over = |it: &Proof| it.ends_at.is_some_and(|end| now >= end);
            let over = live.token.proofs().filter(is_over);
            over.for_each(|proof| live.end(|hash| hash.matches(&proof.hash)));
        }
    }

    /// Removes tokens that ended long ago, some at a time, so that they do not count towards the most that there may be.
    pub(crate) async fn remove_those_over(&self, now: Time) {
        let long_ago = Time(now.0.saturating_sub(KEPT_AFTER_END_MS));
        let over: Vec<TokenId> = {
            let table = self.0.table.read();
            let over = table.iter().filter(|(_, it)| it.token.has_ended(long_ago));
            over.map(|(id, _)| id.clone())
                .take(REMOVED_AT_ONCE)
                .collect()
        };
        if over.is_empty() {
            return;
        }
        for token in over {
            let note = Note::by_host(Verb::Tokens.as_str(), format!("token {token}"));
            let revoke = RevokeToken { token };
            // Another node may have removed it, or the next read does.
            let _ = self
                .0
                .dispatch
                .submit(revoke.noted(note.detail("ended long ago")))
                .await;
        }
        let _ = self.reload().await;
    }

    async fn record_denials(&self, now: Time) {
        let denied = self.0.denials.lock().take(now);
        for (note, outcome) in denied {
            let note = Box::new(note);
            // A host that cannot write has other troubles, and says so.
            let _ = self.0.dispatch.submit(AddNote { note, outcome }).await;
        }
    }

    async fn store_uses(&self) {
        let mut used = Vec::new();
        for (id, live) in &*self.0.table.read() {
            let at = live.used.at_ms.load(Ordering::Relaxed);
            if live.used.stored_ms.swap(at, Ordering::Relaxed) < at {
                used.push((id.clone(), Time(at)));
            }
        }
        if !used.is_empty() {
            // What is lost here is stored with the next use.
            let _ = self.0.dispatch.submit(UseTokens { used }).await;
        }
    }

    /// Sets how many nodes share the rates of tokens.
    pub(crate) fn share_among(&self, nodes: usize) {
        let nodes = u32::try_from(nodes).unwrap_or(u32::MAX).max(1);
        self.0.nodes.store(nodes, Ordering::Relaxed);
    }

    /// Returns what a principal may do, as a limit for the tokens that it makes.
    pub(crate) fn rights_of(&self, principal: &Principal) -> Rights {
        match TokenId::of_principal(principal) {
            None => Rights {
                verbs: principal.verbs,
                scope: principal.scope.clone(),
                ..Rights::default()
            },
            Some(id) => match self.0.table.read().get(&id) {
                Some(live) => live.token.rights.clone(),
                // It was revoked in the meantime.
                None => Rights {
                    verbs: Verbs::NONE,
                    ..Rights::default()
                },
            },
        }
    }

    /// Returns a token with its last use, as this node knows it.
    pub fn find(&self, id: &TokenId) -> Option<KeptToken> {
        let table = self.0.table.read();
        let live = table.get(id)?;
        Some(live.snapshot())
    }

    /// Returns all tokens, by id.
    pub fn list(&self) -> Vec<KeptToken> {
        let table = self.0.table.read();
        let mut all: Vec<KeptToken> = table.values().map(|live| live.snapshot()).collect();
        all.sort_by(|a, b| a.token.id.cmp(&b.token.id));
        all
    }
}

impl Inner {
    /// Returns the administrator that a local socket's peer is.
    fn user(&self, peer: &Peer) -> Option<Caller> {
        let uid = peer.uid?;
        let (_, principal) = self.users.iter().find(|(user, _)| *user == uid)?;
        Some(Caller {
            principal: Arc::clone(principal),
            over: None,
            share: None,
        })
    }

    /// Returns the administrator that a request without a token is from.
    fn without_token(&self, peer: &Peer) -> Caller {
        if let Some(user) = self.user(peer) {
            return user;
        }
        let principal = match &peer.certificate_name {
            Some(name) => Arc::new(Principal {
                name: format!("cert:{name}"),
                ..Principal::anyone()
            }),
            None => Arc::clone(&self.anyone),
        };
        let (over, share) = (None, None);
        Caller {
            principal,
            over,
            share,
        }
    }

    /// Returns the caller that shows a text of a token, or a session, from this address. An unknown text takes as long
    /// as a known one.
    fn find(
        &self,
        (text, is_session): (&str, bool),
        address: Option<IpAddr>,
        now: Time,
    ) -> Option<Result<Caller, Refusal>> {
        let id = TokenText::read(text).map(|read| read.id());
        let presented = TokenHash::of(text);
        let Some(live) = id.and_then(|id| self.table.read().get(&id).cloned()) else {
            let _ = std::hint::black_box(TokenHash::NONE.matches(&presented));
            return None;
        };
        let proof = live
            .token
            .proof(is_session, &presented, now)
            .filter(|_| live.token.is_for(address))?;
        if let Some(rate) = live.token.rights.rate {
            let rate = rate.div_ceil(self.nodes.load(Ordering::Relaxed));
            let taken = live.used.bucket.lock().take(rate, now);
            if let Err(retry_after) = taken {
                return Some(Err(Refusal::RateLimited { retry_after }));
            }
        }
        live.used.at_ms.store(now.0, Ordering::Relaxed);
        Some(Ok(Caller {
            principal: Arc::clone(&live.principal),
            over: live.over(&proof.hash),
            share: Some(live.used.share.clone()),
        }))
    }

    fn admit(&self, peer: &Peer, headers: &HeaderMap) -> Result<Caller, Refusal> {
        let now = self.clock.now();
        let mut presented = headers.get_all(AUTHORIZATION).iter();
        let (presented, more) = (presented.next(), presented.next());
        let Some(presented) = presented else {
            if let Some(user) = self.user(peer) {
                return Ok(user);
            }
            // Browsers keep sending a session that is over. It is no guess, and does not slow them down.
            let session = session::read_cookie(headers, peer.is_tls);
            let caller = session.and_then(|text| self.find((text, true), peer.address, now));
            return caller.unwrap_or(Err(Refusal::Unauthenticated));
        };
        let text = presented
            .to_str()
            .ok()
            .filter(|_| more.is_none())
            .and_then(bearer)
            .unwrap_or_default();
        // What is right is compared first: those who present wrong tokens keep out none that share their address.
        self.find((text, false), peer.address, now)
            .unwrap_or_else(|| Err(self.refuse_wrong(text, peer.address, now)))
    }

    /// Records that a text is no token that counts, and returns the refusal.
    fn refuse_wrong(&self, text: &str, address: Option<IpAddr>, now: Time) -> Refusal {
        let id = TokenText::read(text).map(|read| read.id());
        let mut failures = self.failures.lock();
        if let Some(retry_after) = failures.wait(address, id.as_ref(), now) {
            return Refusal::TooManyWrong { retry_after };
        }
        failures.record(address, id, now);
        Refusal::Unauthenticated
    }
}

/// Waits, and returns whether the host continues.
async fn after(time: Duration, stopping: &CancellationToken) -> bool {
    let waited = stopping.run_until_cancelled(tokio::time::sleep(time));
    waited.await.is_some()
}

/// Returns what a request shows: the text of a token, or a session.
fn presented<'a>(peer: &Peer, headers: &'a HeaderMap) -> Option<(&'a str, bool)> {
    match headers.get(AUTHORIZATION) {
        Some(header) => Some((bearer(header.to_str().ok()?)?, false)),
        None => Some((session::read_cookie(headers, peer.is_tls)?, true)),
    }
}

/// Returns the token of an Authorization header.
pub(crate) fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then(|| token.trim_start_matches(' '))
}

impl Gate for Auth {
    fn admit(&self, peer: &Peer, headers: &HeaderMap) -> Result<Caller, Refusal> {
        match self.0.mode {
            AuthMode::None => Ok(self.0.without_token(peer)),
            AuthMode::Tokens => self.0.admit(peer, headers),
        }
    }

    /// Asks the store: another node may have made the token, or begun the session, a moment ago. It asks for every wrong
    /// text, so that none is refused sooner than another.
    fn learn(&self, peer: &Peer, headers: &HeaderMap) -> Option<BoxFuture<'static, ()>> {
        let (text, is_session) = presented(peer, headers).filter(|_| self.requires_tokens())?;
        let id = TokenText::read(text).map(|read| read.id());
        let now = self.0.clock.now();
        self.0
            .lookup_budget
            .lock()
            .take(LOOKUPS_PER_SECOND, now)
            .ok()?;
        let (auth, address) = (self.clone(), peer.address);
        Some(Box::pin(async move {
            let _ = auth.refresh().await;
            // The request is checked again now, and if it is still wrong, it counts then. Sessions never do.
            if !is_session {
                auth.0.failures.lock().forgive(address, id.as_ref());
            }
        }))
    }

    fn records_denials(&self) -> bool {
        true
    }

    fn record(&self, asked: &AccessRecord<'_>) -> BoxFuture<'static, bool> {
        let note = AddNote {
            note: Box::new(note(asked)),
            outcome: DONE.to_owned(),
        };
        let dispatch = self.0.dispatch.clone();
        Box::pin(async move { dispatch.submit(note).await.is_ok() })
    }

    fn denied(&self, asked: &AccessRecord<'_>, status: u16) {
        let outcome = match status {
            401 => "unauthenticated",
            404 => "not there, or out of scope",
            429 => "too many requests",
            _ => "forbidden",
        };
        let note = note(asked);
        let kind = [
            note.principal.clone(),
            note.address.clone().unwrap_or_default(),
            note.verb.clone(),
            format!("{} {}", asked.method, asked.route),
            outcome.to_owned(),
        ];
        let now = self.0.clock.now();
        self.0.denials.lock().record(kind, || note, now);
    }
}

/// Returns the audit's entry of a request or a connection.
fn note(asked: &AccessRecord<'_>) -> Note {
    let principal = asked.principal;
    Note {
        principal: principal.map(|it| it.name.clone()).unwrap_or_default(),
        token_name: principal.and_then(|it| it.label.clone()),
        address: asked.peer.address.map(|it| it.to_string()),
        request: (asked.method != CONNECT).then(|| request_id(asked.request_id)),
        ..Note::new(
            asked.verb.map_or("", Verb::as_str),
            format!("{} {}", asked.method, hide_tokens(asked.path)),
        )
    }
}
