//! The grants of a new revision: which of them this host does not give, and what changes. The
//! changes are shown to the user who deploys.

use std::collections::BTreeSet;
use std::path::Path;

use host_core::grant_words;
use host_core::http_grant::{ClientAuth, HttpGrant, OAuth, OriginPattern};
use host_core::name::Name;
use host_core::tcp_grant::TcpGrant;
use host_engine::component::{Grants, Manifest, Revision};

use crate::run::handlers::Flaw;
use crate::run::programs::{Environment, NO_VARIABLE};
use crate::sandbox::broker::Reach;
use crate::sandbox::roots::ReadRoots;

/// The name in messages of handlers that are not known yet.
const DEFAULTS: &str = "defaults";

/// What this host can give.
pub struct Available<'a> {
    pub environment: &'a Environment,
    pub roots: &'a ReadRoots,
    pub reach: &'a Reach,
}

impl Available<'_> {
    /// Returns what is wrong if this host does not give some of the grants of these handlers: one line for each.
    pub fn missing(&self, manifest: &Manifest, handlers: &[Name]) -> Option<Flaw> {
        let each = |missing: fn(&Self, &Name, &Grants) -> BTreeSet<String>| {
            let names = handlers.iter();
            let flaws = names.flat_map(|name| missing(self, name, &manifest.grants(name)));
            flaws.collect::<Vec<_>>()
        };
        let mut flaws = each(Self::not_configured);
        // A directory may be created later, and each run opens it anew.
        let may_pass = flaws.is_empty();
        flaws.extend(each(Self::closed));
        let message = flaws.join("\n");
        (!flaws.is_empty()).then_some(Flaw { message, may_pass })
    }

    /// Says what the configuration, which does not change, does not give.
    fn not_configured(&self, handler: &Name, grants: &Grants) -> BTreeSet<String> {
        let variables = grants.env.iter();
        let unset = variables.filter(|name| !self.environment.contains_key(*name));
        unset
            .map(|name| {
                format!(
                    "the manifest grants {handler} the environment variable {name}, {NO_VARIABLE}"
                )
            })
            .chain(self.unreachable(handler, &grants.http))
            .chain(self.unconnected(handler, grants))
            .chain(self.hidden(handler, &grants.secrets))
            .collect()
    }

    /// Says which directories cannot be opened.
    fn closed(&self, handler: &Name, grants: &Grants) -> BTreeSet<String> {
        let closed = grants.read_dirs.iter().filter_map(|dir| {
            let error = self.roots.open(Path::new(&dir.host)).err()?;
            Some(format!(
                "the manifest grants {handler} the directory {}, which this host does not allow: {error}",
                dir.host
            ))
        });
        closed.collect()
    }

    fn hidden(&self, handler: &Name, names: &[String]) -> impl Iterator<Item = String> {
        let Reach {
            secrets, visible, ..
        } = self.reach;
        names.iter().filter_map(move |name| {
            let what = if !visible.contains(name) {
                "which is not in grants.secrets".to_owned()
            } else if !secrets.contains_key(name) {
                format!("which has no section [secrets.{name}] in the configuration")
            } else {
                return None;
            };
            Some(format!(
                "the manifest lets {handler} see the secret {name}, {what}"
            ))
        })
    }

    fn unconnected(&self, handler: &Name, grants: &Grants) -> impl Iterator<Item = String> {
        let Reach {
            endpoints, secrets, ..
        } = self.reach;
        let all = grants.tcp.iter().chain(&grants.sql);
        let closed = all.clone().filter(|grant| !endpoints.contains(&grant.to));
        let named = all.flat_map(TcpGrant::secrets);
        let unknown = named.filter(move |name| !secrets.contains_key(*name));
        let closed = closed.map(move |TcpGrant { to, .. }| {
            format!("the manifest grants {handler} connections to {to}, which is not in grants.tcp")
        });
        closed.chain(unknown.map(move |name| {
            format!(
                "the manifest signs in connections of {handler} with the secret {name}, which has no section \
                 [secrets.{name}] in the configuration"
            )
        }))
    }

    fn unreachable(&self, handler: &Name, grants: &[HttpGrant]) -> impl Iterator<Item = String> {
        let Reach {
            origins, secrets, ..
        } = self.reach;
        let is_covered = move |to: &OriginPattern| origins.iter().any(|origin| origin.covers(to));
        let closed_servers = grants.iter().filter(move |grant| !is_covered(&grant.to));
        let closed = closed_servers.map(move |HttpGrant { to, .. }| {
            format!("the manifest grants {handler} requests to {to}, which is not in grants.http")
        });
        let token_urls = grants
            .iter()
            .filter_map(|grant| Some(&grant.oauth.as_ref()?.token_url));
        let closed_urls = token_urls
            .filter(move |url| !url.origin().is_ok_and(|origin| is_covered(&origin)))
            .map(move |url| {
                format!(
                    "the manifest gets access tokens for {handler} from {url}, whose server is not in grants.http"
                )
            });
        let named = grants.iter().flat_map(HttpGrant::secrets);
        let unknown = named.filter(move |name| !secrets.contains_key(*name));
        closed.chain(closed_urls).chain(unknown.map(move |name| {
            format!(
                "the manifest gives requests of {handler} the secret {name}, which has no section \
                 [secrets.{name}] in the configuration"
            )
        }))
    }
}

/// Describes a grant of connections in one line. Grants that differ in what they allow have different lines.
fn tcp_line(grant: &TcpGrant) -> String {
    let login = grant.login.as_ref().map(|login| {
        let mut words = format!("signed in to {}", login.protocol.as_str());
        for (what, value) in [
            ("as", &login.user),
            ("to the database", &login.database),
            ("with the options", &login.options),
        ] {
            if let Some(value) = value {
                words = format!("{words} {what} {value}");
            }
        }
        match &login.password {
            Some(password) => format!("{words}, with the password {password}"),
            None => words,
        }
    });
    let mut line = grant_words::tcp(&grant.to, grant.tls.as_str(), login.as_deref());
    if grant.login.as_ref().is_some_and(|login| login.md5) {
        line = format!("{line}, also by MD5");
    }
    if let Some(pool) = grant.pool {
        line = format!("{line}, {pool} kept");
    }
    if let Some(connections) = grant.max_connections {
        line = format!("{line}, {connections} connections");
    }
    if let Some(mib) = grant.max_total_mib {
        line = format!("{line}, {mib} MiB in all");
    }
    if let Some(idle) = grant.idle_seconds {
        line = format!("{line}, idle for {} s", f64::from(idle));
    }
    match &grant.name {
        Some(name) => grant_words::sql(name, &line),
        None => line,
    }
}

/// Describes a grant of requests in one line. Grants that differ in what they allow have different lines.
fn http_line(grant: &HttpGrant) -> String {
    let mut line = grant_words::http(&grant.to, &grant.methods, &grant.paths);
    for (name, template) in &grant.headers {
        line = format!("{line}, with the header {name}: {template}");
    }
    if let Some(sign) = &grant.sign {
        let (key_id, secret_key) = (&sign.key_id, &sign.secret_key);
        line = format!(
            "{line}, signed for {} in {} as {key_id} with {secret_key}",
            sign.service, sign.region
        );
        if let Some(token) = &sign.session_token {
            line = format!("{line} and {token}");
        }
    }
    if let Some(oauth) = &grant.oauth {
        line = format!("{line}, {}", oauth_words(oauth));
    }
    if let Some(requests) = grant.max_requests {
        line = format!("{line}, {requests} requests");
    }
    if let Some(kib) = grant.max_response_kib {
        line = format!("{line}, responses of {kib} KiB");
    }
    if let Some(mib) = grant.max_total_mib {
        line = format!("{line}, {mib} MiB in all");
    }
    if let Some(timeout) = grant.timeout_seconds {
        line = format!("{line}, within {} s", f64::from(timeout));
    }
    line
}

/// Describes how access tokens are got.
fn oauth_words(oauth: &OAuth) -> String {
    let mut words = format!("with access tokens of {}", oauth.token_url);
    let credentials = [
        (" for the client", &oauth.client_id),
        (" with", &oauth.client_secret),
        (" for the service account", &oauth.service_account),
    ];
    for (what, value) in credentials {
        if let Some(value) = value {
            words = format!("{words}{what} {value}");
        }
    }
    if oauth.client_auth == ClientAuth::Body {
        words.push_str(" in the body");
    }
    for (what, value) in [("scope", &oauth.scope), ("audience", &oauth.audience)] {
        if let Some(value) = value {
            words = format!("{words}, {what} {value}");
        }
    }
    words
}

/// What a revision changes of the grants of handlers: one line for each, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrantChanges {
    /// New to a handler.
    pub added: Vec<String>,
    /// Taken from a handler that stays.
    pub removed: Vec<String>,
}

/// Returns the handlers of a new revision, as far as they are known before it is compiled: those that its manifest names
/// and those of the current revision. Without one, handlers that have no section may have what all have: `defaults` takes
/// their place.
pub fn known_handlers(current: Option<&Revision>, manifest: &Manifest) -> Vec<Name> {
    let defaults: Option<Name> = DEFAULTS.parse().ok().filter(|_| current.is_none());
    let named = manifest.handlers.keys().chain(defaults.as_ref());
    let current = current
        .into_iter()
        .flat_map(|it| &it.handlers)
        .map(|handler| &handler.name);
    let handlers: BTreeSet<&Name> = named.chain(current).collect();
    handlers.into_iter().cloned().collect()
}

/// Returns what changes from the current revision for these handlers of the new one.
pub fn changes(current: Option<&Revision>, manifest: &Manifest, handlers: &[Name]) -> GrantChanges {
    let before = current
        .map(|revision| {
            let names = revision.handlers.iter().map(|handler| &handler.name);
            lines(
                &revision.manifest,
                names.filter(|name| handlers.contains(name)),
            )
        })
        .unwrap_or_default();
    let after = lines(manifest, handlers.iter());
    GrantChanges {
        added: after.difference(&before).cloned().collect(),
        removed: before.difference(&after).cloned().collect(),
    }
}

fn lines<'a>(manifest: &Manifest, handlers: impl Iterator<Item = &'a Name>) -> BTreeSet<String> {
    let of_handler = |name: &Name| {
        let grants = manifest.grants(name);
        let env = grants.env.iter().map(|name| grant_words::env(name));
        let dirs = grants
            .read_dirs
            .iter()
            .map(|dir| grant_words::dir(&dir.host, &dir.guest));
        let http = grants.http.iter().map(http_line);
        let connections = grants.tcp.iter().chain(&grants.sql).map(tcp_line);
        let job_grants = grants.jobs.iter();
        let jobs = job_grants.map(|grant| grant_words::jobs(&grant.handlers, &grant.queues));
        let state_grants = grants.state.iter();
        let state = state_grants.map(|grant| grant_words::state(grant.quota_kib, &grant.shared));
        let secrets = grants.secrets.iter().map(|name| grant_words::secret(name));
        let hold = grants.hold.iter().map(grant_words::hold);
        let all = env
            .chain(dirs)
            .chain(http)
            .chain(connections)
            .chain(jobs)
            .chain(state)
            .chain(secrets)
            .chain(hold)
            .chain(grants.notify.iter().map(grant_words::notify));
        all.map(|line| format!("{name}: {line}"))
            .collect::<Vec<_>>()
    };
    handlers.flat_map(of_handler).collect()
}

#[cfg(test)]
pub(crate) mod tests;
