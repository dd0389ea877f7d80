//! The options that say which jobs a command is about, apart from their state.

use clap::Args;
use host_api::client::Client;
use host_api::filter::FilterQuery;
use host_console::error::CliError;
use host_core::failure::FailureKind;

use super::parse_id;
use crate::commands::moment::{self, Moment};

/// Which jobs. A job must match every option that is given.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct Filter {
    /// Only jobs that match a filter as the dashboard has it, such as 'handler:report* since:2h'
    #[arg(long = "filter", value_name = "FILTER")]
    text: Option<String>,
    /// Only jobs in this queue
    #[arg(long)]
    queue: Option<String>,
    /// Only jobs for this handler; * stands for any characters
    #[arg(long)]
    handler: Option<String>,
    /// Only jobs that were enqueued since this time, or so long ago at most
    #[arg(long, value_name = "TIME|DURATION", value_parser = moment::parse)]
    since: Option<Moment>,
    /// Only jobs that were enqueued before this time, or longer ago than this
    #[arg(long, value_name = "TIME|DURATION", value_parser = moment::parse)]
    until: Option<Moment>,
    /// Only jobs whose id starts with it
    #[arg(long, value_name = "PREFIX", value_parser = parse_id)]
    id: Option<String>,
    /// Only jobs whose latest attempt did not complete for this reason: a kind such as `timed_out`, else a
    /// handler's own name of its error
    #[arg(long, value_name = "KIND|NAME")]
    failure: Option<String>,
    /// Only jobs that came by this wire; http is the API
    #[arg(long)]
    wire: Option<String>,
    /// Only jobs with this unique key
    #[arg(long, value_name = "KEY")]
    unique_key: Option<String>,
    /// Only jobs with this attribute
    #[arg(long, value_name = "KEY=VALUE")]
    attribute: Option<String>,
    /// Only jobs whose params have this value; keys inside of others follow a dot
    #[arg(long, value_name = "KEY=VALUE")]
    param: Option<String>,
    /// Only jobs that this batch counts
    #[arg(long, value_name = "ID")]
    batch: Option<String>,
    /// Only jobs that failed for this cause, as the dashboard shows it among the failures
    #[arg(long, value_name = "FINGERPRINT")]
    fingerprint: Option<String>,
}

impl Filter {
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
            &self.attribute,
            &self.param,
            &self.batch,
            &self.fingerprint,
        ];
        texts.into_iter().any(Option::is_some) || self.since.is_some() || self.until.is_some()
    }

    /// Returns what `--failure` says if that is no kind of failure.
    pub(super) fn own_name(&self) -> Option<&str> {
        let name = self.failure.as_deref();
        name.filter(|name| FailureKind::from_name(name).is_none())
    }

    /// Returns the options as the API takes them. Asks the host for its time if one needs it.
    pub(super) fn query(&self, client: &Client) -> Result<FilterQuery, CliError> {
        let [since, until] = moment::texts([&self.since, &self.until], client)?;
        Ok(FilterQuery {
            q: self.text.clone(),
            queue: self.queue.clone(),
            handler: self.handler.clone(),
            since,
            until,
            id: self.id.clone(),
            failure: self.failure.clone(),
            wire: self.wire.clone(),
            unique_key: self.unique_key.clone(),
            attribute: self.attribute.clone(),
            param: self.param.clone(),
            batch: self.batch.clone(),
            fingerprint: self.fingerprint.clone(),
            ..FilterQuery::default()
        })
    }
}
