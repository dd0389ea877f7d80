//! A time as users write it: an instant, or how long ago it was by the host's time.

use host_api::client::Client;
use host_console::error::{CliError, Exit, cannot};
use host_console::human;
use host_core::seconds::Seconds;
use host_core::time::Time;

/// An instant, or how long ago it was by the host's time.
#[derive(Clone, Debug)]
pub(super) enum Moment {
    At(String),
    Ago(Seconds),
}

/// Reads what users write.
pub(super) fn parse(text: &str) -> Result<Moment, String> {
    if let Ok(at) = human::parse_time(text) {
        return Ok(Moment::At(at));
    }
    human::parse_duration(text).map(Moment::Ago).map_err(|_| {
        "write a time as RFC 3339, such as 2026-05-17T18:30:00Z, or how long ago, such as 1h30m"
            .to_owned()
    })
}

/// Returns moments as the API takes them. Asks the host for its time if one needs it.
pub(super) fn texts<const N: usize>(
    moments: [&Option<Moment>; N],
    client: &Client,
) -> Result<[Option<String>; N], CliError> {
    let is_relative = |moment: &&Option<Moment>| matches!(moment, Some(Moment::Ago(_)));
    let needs_now = moments.iter().any(is_relative);
    let now = if needs_now { Some(now(client)?) } else { None };
    Ok(moments.map(|moment| match moment {
        None => None,
        Some(Moment::At(at)) => Some(at.clone()),
        Some(Moment::Ago(ago)) => now.map(|now| before(now, *ago).to_rfc3339()),
    }))
}

fn before(now: Time, ago: Seconds) -> Time {
    Time(now.0.saturating_sub_unsigned(ago.ms))
}

fn now(client: &Client) -> Result<Time, CliError> {
    let doing = "ask the host for its time";
    let answer = client.health().map_err(cannot(doing))?;
    answer
        .now
        .ok_or_else(|| CliError::new(Exit::Failed, doing, "its answer has no date"))
}
