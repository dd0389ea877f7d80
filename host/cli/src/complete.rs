//! Completion of words on the command line. Names of handlers, queues and the like come from the host that the
//! environment or the current context names. If it does not answer within a second, no names are offered.

use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use host_api::cause::CausesQuery;
use host_api::client::{Choice, Client, Contexts, Error, Item};
use host_api::filter::FilterQuery;
use host_api::node::NodeView;

/// The variable that names the shell which asks for words.
pub(crate) const VARIABLE: &str = "HOST_COMPLETE";

/// How long a host may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// How many jobs are offered.
const JOBS_OFFERED: u32 = 50;

/// Prints the words of a command line that a shell asks for, and ends the process. Returns if none asks.
pub(crate) fn answer_shell(definition: fn() -> clap::Command) {
    CompleteEnv::with_factory(definition)
        .var(VARIABLE)
        .bin("host")
        .complete();
}

/// Offers the names of handlers.
pub(crate) fn handlers() -> ArgValueCandidates {
    candidates(|client| Ok(names(client.handlers()?.items, |it| it.name)))
}

/// Offers the names of queues.
pub(crate) fn queues() -> ArgValueCandidates {
    candidates(|client| Ok(names(client.queues()?.items, |it| it.name)))
}

/// Offers the names of schedules.
pub(crate) fn schedules() -> ArgValueCandidates {
    candidates(|client| Ok(names(client.schedules()?.items, |it| it.name)))
}

/// Offers the names of components.
pub(crate) fn components() -> ArgValueCandidates {
    candidates(|client| Ok(names(client.components()?.items, |it| it.component)))
}

/// Offers the names of limits.
pub(crate) fn limits() -> ArgValueCandidates {
    candidates(|client| Ok(names(client.limits()?.items, |it| it.name)))
}

/// Offers the names of tokens.
pub(crate) fn tokens() -> ArgValueCandidates {
    candidates(|client| Ok(names(client.tokens()?.items, |it| it.name)))
}

/// Offers the ids of the newest jobs.
pub(crate) fn jobs() -> ArgValueCandidates {
    candidates(|client| {
        let newest = FilterQuery {
            limit: Some(JOBS_OFFERED),
            ..FilterQuery::default()
        };
        Ok(names(client.jobs(&newest)?.view.items, |it| it.id))
    })
}

/// Offers the ids of batches.
pub(crate) fn batches() -> ArgValueCandidates {
    candidates(|client| Ok(names(client.batches()?.items, |it| it.id)))
}

/// Offers the fingerprints of causes.
pub(crate) fn causes() -> ArgValueCandidates {
    candidates(|client| {
        let causes = client.causes(&CausesQuery::default())?.view.items;
        Ok(causes.into_iter().map(|it| it.fingerprint).collect())
    })
}

/// Offers the names of nodes, or the ids of those without one.
pub(crate) fn nodes() -> ArgValueCandidates {
    candidates(|client| {
        let name = |it: NodeView| it.name.unwrap_or(it.id);
        Ok(names(client.nodes()?.items, name))
    })
}

/// Offers the names of pools of runners.
pub(crate) fn runners() -> ArgValueCandidates {
    candidates(|client| Ok(names(client.runners()?.items, |it| it.name)))
}

/// Offers the spaces of state.
pub(crate) fn spaces() -> ArgValueCandidates {
    candidates(|client| Ok(names(client.state_spaces()?.items, |it| it.space)))
}

/// Offers the names of the user's contexts.
pub(crate) fn contexts() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let known = Contexts::load().unwrap_or_default().contexts;
        plain(known.into_keys())
    })
}

/// Offers the names of time zones.
pub(crate) fn time_zones() -> ArgValueCandidates {
    ArgValueCandidates::new(|| plain(host_engine::schedule::time_zones().map(str::to_owned)))
}

fn names<T>(items: Vec<Item<T>>, name: impl Fn(T) -> String) -> Vec<String> {
    items.into_iter().map(|item| name(item.view)).collect()
}

fn candidates(
    ask: impl Fn(&Client) -> Result<Vec<String>, Error> + Copy + Send + Sync + 'static,
) -> ArgValueCandidates {
    ArgValueCandidates::new(move || {
        let (sender, answer) = mpsc::sync_channel(1);
        std::thread::spawn(move || {
            let asked = client().and_then(|client| ask(&client).ok());
            // The shell may have stopped waiting.
            let _ = sender.send(asked);
        });
        let names = answer
            .recv_timeout(ANSWER_MAX)
            .ok()
            .flatten()
            .unwrap_or_default();
        plain(names.into_iter())
    })
}

/// Leaves out what a shell could mistake for something else.
fn plain(names: impl Iterator<Item = String>) -> Vec<CompletionCandidate> {
    let is_plain = |name: &String| !name.chars().any(|c| c.is_control() || c.is_whitespace());
    names
        .filter(is_plain)
        .map(CompletionCandidate::new)
        .collect()
}

#[expect(
    clippy::disallowed_methods,
    reason = "a shell gives no options to read these from"
)]
fn client() -> Option<Client> {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let choice = Choice {
        server: variable("HOST_SERVER"),
        token_file: variable("HOST_TOKEN_FILE").map(PathBuf::from),
        ..Choice::default()
    };
    choice.open().ok()
}
