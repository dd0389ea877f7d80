//! The options that say which jobs a command is about, apart from their state.

use clap::Args;
use host_api::client::Client;
use host_api::filter::FilterQuery;
use host_api::filter_text;
use host_console::error::CliError;
use host_core::failure::FailureKind;

use super::{parse_id, parse_pair};
use crate::commands::moment::{self, Moment};
use crate::complete;

/// Which jobs. A job must match every option that is given.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Filter {
    /// Only jobs that match a filter in the syntax of the dashboard, such as 'handler:report* since:2h refused'
    #[arg(long = "filter", value_name = "FILTER")]
    text: Option<String>,
    /// Only jobs in this queue
    #[arg(long)]
    #[arg(add = complete::queues())]
    queue: Option<String>,
    /// Only jobs for this handler; * matches any characters
    #[arg(long)]
    #[arg(add = complete::handlers())]
    handler: Option<String>,
    /// Only jobs enqueued since this time, or within this duration
    #[arg(long, value_name = "TIME|DURATION", value_parser = moment::parse)]
    since: Option<Moment>,
    /// Only jobs enqueued before this time, or longer ago than this duration
    #[arg(long, value_name = "TIME|DURATION", value_parser = moment::parse)]
    until: Option<Moment>,
    /// Only jobs whose id starts with this prefix
    #[arg(long, value_name = "PREFIX", value_parser = parse_id)]
    id: Option<String>,
    /// Only jobs whose latest attempt did not complete for this reason: a kind such as `timed_out`, else a
    /// handler's own name for its error
    #[arg(long, value_name = "KIND|NAME")]
    failure: Option<String>,
    /// Only jobs that came in over this wire; http is the API
    #[arg(long)]
    wire: Option<String>,
    /// Only jobs with this unique key
    #[arg(long, value_name = "KEY")]
    unique_key: Option<String>,
    /// Only jobs with this attribute (repeatable)
    #[arg(long = "attribute", value_name = "KEY=VALUE", value_parser = parse_pair)]
    attributes: Vec<(String, String)>,
    /// Only jobs whose params have this value; dots separate nested keys (repeatable)
    #[arg(long = "param", value_name = "KEY=VALUE", value_parser = parse_pair)]
    params: Vec<(String, String)>,
    /// Only jobs that this batch counts
    #[arg(long, value_name = "ID")]
    #[arg(add = complete::batches())]
    batch: Option<String>,
    /// Only jobs that failed for this cause, as the dashboard shows it under failures
    #[arg(long, value_name = "FINGERPRINT")]
    #[arg(add = complete::causes())]
    fingerprint: Option<String>,
}

impl Filter {
    /// Chooses the jobs that a batch counts.
    pub(crate) fn by_batch(id: &str) -> Self {
        Self {
            batch: Some(id.to_owned()),
            ..Self::default()
        }
    }

    /// Chooses the jobs that failed for a cause.
    pub(crate) fn by_fingerprint(fingerprint: &str) -> Self {
        Self {
            fingerprint: Some(fingerprint.to_owned()),
            ..Self::default()
        }
    }

    /// Returns whether any option is given.
    pub(super) fn is_given(&self) -> bool {
        let texts = [
            &self.text,
            &self.queue,
            &self.handler,
            &self.id,
            &self.failure,
            &self.wire,
            &self.unique_key,
            &self.batch,
            &self.fingerprint,
        ];
        let has_pairs = !self.attributes.is_empty() || !self.params.is_empty();
        let has_times = self.since.is_some() || self.until.is_some();
        texts.into_iter().any(Option::is_some) || has_pairs || has_times
    }

    /// Returns the value of `--failure` if it is not a kind of failure.
    pub(super) fn own_name(&self) -> Option<&str> {
        let name = self.failure.as_deref();
        name.filter(|name| FailureKind::from_name(name).is_none())
    }

    /// Returns the options as the API takes them. Asks the host for its time if one needs it.
    pub(super) fn query(&self, client: &Client) -> Result<FilterQuery, CliError> {
        let [since, until] = moment::texts([&self.since, &self.until], client)?;
        // Only the text of a filter may have several of them.
        let (attribute, attributes) = first(&self.attributes);
        let (param, params) = first(&self.params);
        let more = filter_text::write(&filter_text::Filter {
            attributes,
            params,
            ..filter_text::Filter::default()
        });
        let text = self.text.as_deref().unwrap_or_default();
        let text = format!("{text} {more}").trim().to_owned();
        Ok(FilterQuery {
            q: Some(text).filter(|text| !text.is_empty()),
            queue: self.queue.clone(),
            handler: self.handler.clone(),
            since,
            until,
            id: self.id.clone(),
            failure: self.failure.clone(),
            wire: self.wire.clone(),
            unique_key: self.unique_key.clone(),
            attribute,
            param,
            batch: self.batch.clone(),
            fingerprint: self.fingerprint.clone(),
            ..FilterQuery::default()
        })
    }
}

/// Returns the first pair as a parameter has it, and the others.
fn first(pairs: &[(String, String)]) -> (Option<String>, Vec<(String, String)>) {
    let (first, rest) = pairs.split_first().unzip();
    (
        first.map(|(key, value)| format!("{key}={value}")),
        rest.unwrap_or_default().to_vec(),
    )
}
