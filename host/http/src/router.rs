//! Builds one router from groups of routes. Each route has a guard and each group its error format.
//! Unknown paths and methods are refused in the format of their group.

use std::sync::Arc;

use axum::Router;
use axum::http::{Method, Uri};
use axum::middleware::from_fn_with_state;
use host_runtime::tasks::Tasks;

use crate::budget::ByteBudget;
use crate::door::Door;
use crate::gate::Gate;
use crate::guard::{AllowedHosts, Guard, guard};
use crate::metrics::Metrics;
use crate::refusal::{Refusal, Render};
use crate::route::{Group, Route};

/// Shared by all groups.
#[derive(Clone)]
pub struct Serving {
    /// The names by which requests may address the host.
    pub hosts: AllowedHosts,
    /// The doors that are open. Other routes do not exist.
    pub doors: Arc<[Door]>,
    /// The memory budget for answers that are being sent.
    pub answers: ByteBudget,
    /// Knows who may do what.
    pub gate: Arc<dyn Gate>,
    /// Counts answers.
    pub metrics: Arc<dyn Metrics>,
    /// Where handlers run that outlive their client.
    pub tasks: Tasks,
}

/// Makes a router of all groups. A path below no group's prefix is refused in the format of
/// `render`.
///
/// # Panics
/// If two groups have the same path, or a group has the same method and path twice.
pub fn router(groups: Vec<Group>, serving: &Serving, render: Render) -> Router {
    let mut formats: Vec<_> = groups.iter().map(|it| (it.prefix, it.render)).collect();
    formats.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
    let merged = groups.into_iter().fold(Router::new(), |merged, group| {
        merged.merge(routes_of(group, serving))
    });
    merged.fallback(move |uri: Uri| {
        let mut formats = formats.iter();
        let format = formats.find(|(prefix, _)| is_below(uri.path(), prefix));
        let response = format.map_or(render, |(_, render)| *render)(&Refusal::NotFound);
        async move { response }
    })
}

fn routes_of(group: Group, serving: &Serving) -> Router {
    let render = group.render;
    let is_open = |route: &Route| route.doors.iter().any(|door| serving.doors.contains(door));
    let all = group
        .routes
        .into_iter()
        .filter(is_open)
        .fold(Router::new(), |router, route| {
            let guarded = from_fn_with_state(Arc::new(guard_of(&route, render, serving)), guard);
            router.route(route.path, route.call.route_layer(guarded))
        });
    all.method_not_allowed_fallback(move |method: Method| async move {
        render(&Refusal::MethodNotAllowed { method })
    })
}

fn guard_of(route: &Route, render: Render, serving: &Serving) -> Guard {
    Guard {
        hosts: serving.hosts.clone(),
        answers: serving.answers.clone(),
        gate: Arc::clone(&serving.gate),
        access: route.access,
        metrics: Arc::clone(&serving.metrics),
        render,
        method: route.method,
        path: route.path,
        is_long_running: route.is_long_running,
        tasks: (!route.ends_with_client).then(|| serving.tasks.clone()),
        media_types: route.media_types,
        is_body_optional: route.is_body_optional,
        is_recorded: route.is_recorded,
    }
}

/// Returns whether a path is the prefix or continues it after a `/`.
fn is_below(path: &str, prefix: &str) -> bool {
    let rest = path.strip_prefix(prefix.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
