//! Writes docs/verbs.md: what each verb and role allows, and which verb each route needs.

use std::fmt::Write as _;
use std::sync::Arc;

use host_core::access::{Access, Role, Verb};
use host_runtime::clock::Clock;
use host_runtime::tasks::Tasks;

use super::fixture::{Host, api};
use crate::api::routes;
use crate::published;

const HEAD: &str = "\
# Verbs

<!-- Generated; update it with `cargo xtask test docs --update`. -->

A token allows verbs. Each route of the API and each page names the one that it needs; [who may do what](access.md)
explains tokens, roles and scopes.

| verb | what it allows |
|---|---|
";

const ROUTES: &str = "
*Scoped* routes keep to the queues and handlers of a token: objects out of its scope look as if they did not exist.
Other routes are for tokens without a scope. Routes with *its own proof* are for the peers of wires, which check tokens
of their own.

| route | needs | scoped |
|---|---|---|
";

#[tokio::test]
async fn the_published_verbs_are_current() {
    let mut doc = HEAD.to_owned();
    for verb in Verb::ALL {
        writeln!(doc, "| `{verb}` | {} |", verb.meaning()).unwrap();
    }
    doc.push_str("\n| role | verbs |\n|---|---|\n");
    for role in Role::ALL {
        let verbs: Vec<_> = role.verbs().iter().map(|it| format!("`{it}`")).collect();
        writeln!(doc, "| `{}` | {} |", role.as_str(), verbs.join(", ")).unwrap();
    }
    doc.push_str(ROUTES);
    let (tasks, clock) = (Tasks::default(), Clock::start());
    let dispatch = Host::run_loop(&tasks, clock);
    let groups = api(&dispatch, &Arc::default(), &tasks, clock).wire_routes;
    let of_wires = groups
        .iter()
        .flat_map(|group| &group.routes)
        .map(|route| (route.path, route.method, route.access));
    let own = routes::list()
        .into_iter()
        .map(|route| (route.path, route.method, route.access));
    let pages = host_web::pages().map(|(method, path, access)| (path, method, access));
    let mut all: Vec<_> = own.chain(of_wires).chain(pages).collect();
    all.sort_by_key(|(path, method, _)| (*path, *method));
    for (path, method, access) in all {
        let needs = match access.verb() {
            Some(verb) => format!("`{verb}`"),
            None => access.to_string(),
        };
        let scoped = match access {
            Access::Scoped(_) => "yes",
            _ => "",
        };
        writeln!(doc, "| {method} `{path}` | {needs} | {scoped} |").unwrap();
    }
    published::check("verbs.md", &doc);
}
