//! Webhooks: where deliveries may go, as the configuration says, and the receivers of queues.

pub(crate) mod executor;
mod outcome;
mod signature;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use host_api::webhook::NotifyBody;
use host_core::access::Glob;
use host_core::glob;
use host_core::http_grant::{AMBIGUOUS, HttpGrant, OriginPattern, is_ambiguous};
use host_core::name::Name;
use host_core::notify::{Event, JOB_EVENTS, Notify};
use host_core::seconds::Seconds;
use host_engine::webhook::{ANSWER_MS_MAX, URL_BYTES_MAX};
use serde::Deserialize;

/// How much of an answer is kept, in KiB.
const ANSWER_KIB_MAX: u32 = 1;

/// Where deliveries may go, signed by which secrets: a section `[webhooks.NAME]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allowed {
    pub to: OriginPattern,
    /// Patterns of paths, as manifests have them; all if empty.
    #[serde(default)]
    pub paths: Vec<String>,
    pub secrets: Vec<String>,
    /// The handlers whose jobs may notify it, as jobs name them; all if empty.
    #[serde(default)]
    pub handlers: Vec<Glob>,
    /// The queues whose jobs may notify it; all if empty.
    #[serde(default)]
    pub queues: Vec<Glob>,
}

/// What notifies a webhook.
#[derive(Clone, Copy, Debug)]
pub enum Sender<'a> {
    /// A job of a handler in a queue.
    Job { handler: &'a str, queue: &'a Name },
    /// All jobs of a queue.
    Queue(&'a Name),
    /// A batch, with jobs of any handlers and queues.
    Batch,
    /// The host, which delivers what it has accepted, and an operator who tries a receiver.
    Host,
}

impl Allowed {
    /// Returns whether the webhook may be notified by a sender.
    fn is_for(&self, sender: Sender<'_>) -> bool {
        let has = |globs: &[Glob], name: &str| {
            globs.is_empty() || globs.iter().any(|glob| glob.has(name))
        };
        match sender {
            Sender::Job { handler, queue } => {
                has(&self.handlers, handler) && has(&self.queues, queue.as_str())
            }
            Sender::Queue(queue) => self.handlers.is_empty() && has(&self.queues, queue.as_str()),
            Sender::Batch => self.handlers.is_empty() && self.queues.is_empty(),
            Sender::Host => true,
        }
    }

    /// Returns what the broker is granted for a delivery.
    pub(crate) fn grant(&self) -> HttpGrant {
        HttpGrant {
            to: self.to.clone(),
            methods: vec!["POST".to_owned()],
            paths: self.paths.clone(),
            headers: BTreeMap::new(),
            sign: None,
            oauth: None,
            max_requests: Some(1),
            max_response_kib: Some(ANSWER_KIB_MAX),
            max_total_mib: Some(1),
            timeout_seconds: Some(Seconds { ms: ANSWER_MS_MAX }),
        }
    }
}

/// The webhooks of the configuration. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Webhooks(Arc<Settings>);

#[derive(Debug, Default)]
struct Settings {
    allowed: BTreeMap<Name, Allowed>,
    queues: BTreeMap<Name, Notify>,
}

impl Webhooks {
    /// Makes them of what the sections `[webhooks.NAME]` allow.
    pub fn new(allowed: BTreeMap<Name, Allowed>) -> Self {
        let queues = BTreeMap::new();
        Self(Arc::new(Settings { allowed, queues }))
    }

    /// Adds the receivers of queues.
    pub(crate) fn with_queues(
        self,
        queues: BTreeMap<Name, NotifyBody>,
    ) -> Result<Self, (Name, String)> {
        let checked = queues.into_iter().map(|(queue, body)| {
            let checked = self.check(body, &JOB_EVENTS, Sender::Queue(&queue));
            match checked {
                Ok(notify) => Ok((queue, notify)),
                Err(message) => Err((queue, message)),
            }
        });
        let queues = checked.collect::<Result<_, _>>()?;
        let allowed = self.0.allowed.clone();
        Ok(Self(Arc::new(Settings { allowed, queues })))
    }

    /// Returns whether deliveries may go anywhere.
    pub fn any(&self) -> bool {
        !self.0.allowed.is_empty()
    }

    /// Returns the receiver of a queue's jobs.
    pub fn of_queue(&self, queue: &Name) -> Option<&Notify> {
        self.0.queues.get(queue)
    }

    /// Checks what a request asks for, out of `possible` events. The error is for users.
    pub fn check(
        &self,
        body: NotifyBody,
        possible: &[Event],
        sender: Sender<'_>,
    ) -> Result<Notify, String> {
        let notify = body.into_notify(possible)?;
        let refused = |message| format!("notify.url: {message}");
        let found = self.find(&notify.url, &notify.secret).map_err(refused)?;
        if !found.iter().any(|(_, allowed)| allowed.is_for(sender)) {
            let sections: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
            let names = sections.join("], [webhooks.");
            return Err(refused(format!(
                "[webhooks.{names}] of the configuration is only for some handlers or queues, and not for this one"
            )));
        }
        Ok(notify)
    }

    /// Returns the grant for a delivery. The error is for users.
    pub fn grant(&self, url: &str, secret: &str) -> Result<HttpGrant, String> {
        let found = self.find(url, secret)?;
        Ok(found[0].1.grant())
    }

    /// Returns the sections that allow a delivery with their names, at least one. The error is for users.
    pub fn find(&self, url: &str, secret: &str) -> Result<Vec<(&Name, &Allowed)>, String> {
        let (origin, path) = split(url)?;
        let allows = |allowed: &Allowed| {
            let mut patterns = allowed.paths.iter();
            allowed.to.covers(&origin)
                && allowed.secrets.iter().any(|name| name == secret)
                && (allowed.paths.is_empty() || patterns.any(|it| glob::matches(it, path)))
        };
        let all = self.0.allowed.iter();
        let found: Vec<_> = all.filter(|(_, allowed)| allows(allowed)).collect();
        if found.is_empty() {
            let secret: String = secret.chars().take(64).collect();
            return Err(format!(
                "the configuration allows no webhook to {origin} with this path and the secret {secret:?}; an operator \
                 can allow it in a section [webhooks.NAME]"
            ));
        }
        Ok(found)
    }
}

/// Splits a URL into its origin and its path. Takes only what is the same for all who read it: the broker decides again
/// on what it sends.
fn split(url: &str) -> Result<(OriginPattern, &str), String> {
    if url.len() > URL_BYTES_MAX || !url.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!(
            "must have at most {URL_BYTES_MAX} visible ASCII characters"
        ));
    }
    let after = url.find("://").map_or(0, |at| at + 3);
    let end = url[after..].find(['/', '?', '#', '\\']);
    let (origin, rest) = url.split_at(end.map_or(url.len(), |at| after + at));
    let shown: String = origin.chars().take(100).collect();
    if origin.contains('*') {
        return Err(format!("{shown:?} is not a server"));
    }
    let origin = origin
        .parse::<OriginPattern>()
        .map_err(|error| format!("{shown:?}: {error}"))?;
    let path = rest.split('?').next().unwrap_or_default();
    if rest.contains('#') {
        return Err("must have no `#`".to_owned());
    }
    if is_ambiguous(path) || rest.contains('\\') {
        return Err(format!("the path {path} {AMBIGUOUS}"));
    }
    Ok((origin, if path.is_empty() { "/" } else { path }))
}
