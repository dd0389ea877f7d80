//! The tokens that are kept: one for each component and way of getting it. Requests that need one at the same time share it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use host_core::egress::{HttpError, HttpErrorKind, Pass};
use host_core::http_grant::OAuth;
use host_core::secret::{Revealed, Secret};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::Token;

/// The most tokens that are kept.
const TOKENS_MAX: usize = 1_024;

/// How soon a token that was refused may be refused and replaced again: a server that refuses all of them must not have the
/// token endpoint asked for each request.
const REPLACE_AGAIN_AFTER: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(crate) struct Tokens {
    by_login: RefCell<HashMap<(String, OAuth), Rc<TokenSlot>>>,
    /// How often a secret has got another value.
    generation: Cell<u64>,
}

#[derive(Default)]
struct TokenSlot {
    /// Locked while a token is fetched.
    state: Mutex<State>,
    /// The last two tokens: a server may know both.
    values: RefCell<[Option<String>; 2]>,
}

#[derive(Default)]
struct State {
    token: Option<Token>,
    generation: u64,
    /// When a refused token was last replaced.
    replaced: Option<Instant>,
    /// When a fetch failed, and why.
    failed: Option<(Instant, HttpError)>,
}

impl State {
    /// Returns the token if it is valid.
    fn valid(&self, generation: u64) -> Option<&str> {
        let token = self.token.as_ref()?;
        let is_valid = token.until > Instant::now() && self.generation == generation;
        is_valid.then_some(&*token.value)
    }
}

impl Tokens {
    /// Returns a valid token, which `fetch` gets if none is kept. Cancel safe: the next request fetches.
    pub(crate) async fn get(
        &self,
        component: &str,
        oauth: &OAuth,
        fetch: impl AsyncFnOnce() -> Result<Token, HttpError>,
    ) -> Result<String, HttpError> {
        let asked = Instant::now();
        let kept = self.kept(component, oauth);
        let mut state = kept.state.lock().await;
        if let Some(value) = state.valid(self.generation.get()) {
            return Ok(value.to_owned());
        }
        // Those who waited for it get its failure, instead of failing one after another.
        if let Some((at, error)) = &state.failed
            && *at >= asked
        {
            return Err(error.clone());
        }
        self.fetch_into(&mut state, &kept, fetch).await
    }

    /// Returns another token than `refused`, unless one was replaced a moment ago. Cancel safe like [`Self::get`].
    pub(crate) async fn replace(
        &self,
        component: &str,
        oauth: &OAuth,
        refused: &str,
        fetch: impl AsyncFnOnce() -> Result<Token, HttpError>,
    ) -> Result<Option<String>, HttpError> {
        let kept = self.kept(component, oauth);
        let mut state = kept.state.lock().await;
        let other = state.valid(self.generation.get());
        if let Some(value) = other.filter(|value| *value != refused) {
            return Ok(Some(value.to_owned()));
        }
        let now = Instant::now();
        let is_early = |it: Instant| now.duration_since(it) < REPLACE_AGAIN_AFTER;
        if state.replaced.is_some_and(is_early) {
            return Ok(None);
        }
        state.replaced = Some(now);
        let fetched = self.fetch_into(&mut state, &kept, fetch).await;
        fetched.map(Some)
    }

    async fn fetch_into(
        &self,
        state: &mut State,
        kept: &TokenSlot,
        fetch: impl AsyncFnOnce() -> Result<Token, HttpError>,
    ) -> Result<String, HttpError> {
        let generation = self.generation.get();
        match fetch().await {
            Ok(token) => {
                let value = token.value.clone();
                state.token = Some(token);
                state.generation = generation;
                let mut values = kept.values.borrow_mut();
                if values[0].as_ref() != Some(&value) {
                    values[1] = values[0].replace(value.clone());
                }
                Ok(value)
            }
            Err(error) => {
                // These are failures of one attempt.
                let is_own = matches!(
                    error.kind,
                    HttpErrorKind::Unavailable | HttpErrorKind::TimedOut
                );
                state.failed = (!is_own).then(|| (Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    fn kept(&self, component: &str, oauth: &OAuth) -> Rc<TokenSlot> {
        let mut by_login = self.by_login.borrow_mut();
        if by_login.len() >= TOKENS_MAX {
            by_login.retain(|_, kept| Rc::strong_count(kept) > 1);
        }
        let login = (component.to_owned(), oauth.clone());
        Rc::clone(by_login.entry(login).or_default())
    }

    /// Gets all tokens anew: a secret has another value.
    pub(crate) fn expire(&self) {
        self.generation.set(self.generation.get() + 1);
    }

    /// Adds the tokens that no server may give away to a run with this pass.
    pub(crate) fn reveal(&self, pass: &Pass, secrets: &mut Revealed) {
        let by_login = self.by_login.borrow();
        for oauth in pass.grants.iter().filter_map(|it| it.oauth.as_ref()) {
            let Some(kept) = by_login.get(&(pass.component.clone(), oauth.clone())) else {
                continue;
            };
            let name = oauth.secrets().next().unwrap_or_default();
            for value in kept.values.borrow().iter().flatten().cloned() {
                let name = name.to_owned();
                secrets.add(Secret { name, value });
            }
        }
    }
}
