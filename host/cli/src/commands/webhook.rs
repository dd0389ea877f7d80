//! `host webhook`: tries a webhook.

use clap::{Args, Subcommand};
use host_api::webhook::TestWebhookBody;
use host_console::error::{CliError, cannot};
use host_console::options::Remote;
use host_console::plain;

use super::job::wait;

/// Try the webhooks that jobs and batches name.
#[derive(Debug, Args)]
pub(crate) struct Webhook {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Send a signed message of the type webhook.test, and print what the receiver answers
    #[command(
        after_help = "Example:\n  host webhook test https://hooks.example.com/paid --secret hooks"
    )]
    Test(Test),
}

#[derive(Debug, Args)]
struct Test {
    /// Where it goes: a URL that a section [webhooks.NAME] of the host's configuration allows
    url: String,
    /// The name of the secret that signs it
    #[arg(long, value_name = "NAME")]
    secret: String,
    #[command(flatten)]
    remote: Remote,
}

impl Webhook {
    /// Runs the verb.
    pub(crate) fn run(self) -> Result<(), CliError> {
        match self.verb {
            Verb::Test(test) => test.run(),
        }
    }
}

impl Test {
    fn run(self) -> Result<(), CliError> {
        let (client, output) = self.remote.open()?;
        let doing = format!("test the webhook {}", plain::line(&self.url));
        let body = TestWebhookBody {
            url: self.url,
            secret: self.secret,
        };
        let accepted = client.test_webhook(&body).map_err(cannot(&doing))?.view;
        let id = plain::line(&accepted.id);
        if output.is_human() {
            output.note(&format!(
                "waiting for the delivery, job {id}; it is tried again for a day"
            ));
        }
        wait::until_end(&client, output, &accepted.id, None)
    }
}
