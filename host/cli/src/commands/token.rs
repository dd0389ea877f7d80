//! `host token`: who may use the API of a host.

use clap::{ArgGroup, Args, Subcommand};
use host_api::client::Item;
use host_api::token::{NewTokenBody, RotateBody, TokenView};
use host_console::error::{CliError, cannot, cannot_find};
use host_console::options::Remote;
use host_console::output::{Output, put_line};
use host_console::table::{Cell, Column, Rows};
use host_console::{human, plain};
use host_core::seconds::Seconds;

use crate::complete;

/// Make, list, rotate and revoke tokens for the API.
#[derive(Debug, Args)]
pub(crate) struct Token {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Make a token and print it; it is shown only once
    #[command(after_help = "\
Examples:
  host token create ci --role deployer > ci.token
  host token create mailer --role producer --queue 'mail-*' --handler send_email --from 10.1.0.0/16
  host token create metrics --allow metrics --expires 365d

Roles: producer (enqueue, read, read_own, cancel), viewer (read, metrics),
operator (viewer, read_payload, read_own, cancel, retry, schedule, operate),
deployer (read, deploy), admin (all verbs).")]
    Create(Box<Create>),
    /// List the tokens
    #[command(after_help = "Example:\n  host token ls -o json")]
    Ls(Remote),
    /// Show a token, by default the one in use
    #[command(after_help = "Examples:\n  host token show ci\n  host token show")]
    Show(Show),
    /// Revoke a token: it is no longer accepted, and its open requests end
    #[command(after_help = "Example:\n  host token revoke ci")]
    Revoke(TokenArgs),
    /// Replace the text of a token and print it
    #[command(after_help = "Example:\n  host token rotate ci --overlap 1h > ci.token")]
    Rotate(Rotate),
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("verbs").required(true).multiple(true).args(["role", "allow"])))]
struct Create {
    /// What the token is for
    name: String,
    /// The role: producer, viewer, operator, deployer or admin
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// Verbs that it allows, comma-separated
    #[arg(long, value_name = "VERBS", value_delimiter = ',')]
    allow: Vec<String>,
    /// A queue that it may use, or a glob with `*` (repeatable) [default: all queues]
    #[arg(long, value_name = "GLOB")]
    queue: Vec<String>,
    /// A handler that it may use, or a glob with `*` (repeatable) [default: all handlers]
    #[arg(long, value_name = "GLOB")]
    handler: Vec<String>,
    /// How long it lasts [default: 90d]
    #[arg(long, value_name = "DURATION", value_parser = human::parse_duration)]
    expires: Option<Seconds>,
    /// A network that it may be used from (repeatable) [default: all networks]
    #[arg(long, value_name = "CIDR")]
    from: Vec<String>,
    /// How many requests it may make per second
    #[arg(long, value_name = "N/s", value_parser = rate)]
    rate: Option<u32>,
    /// How many of its jobs may wait or run concurrently
    #[arg(long, value_name = "N")]
    max_waiting: Option<u64>,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Args)]
struct TokenArgs {
    /// The token's id, or its name if no other token has it
    #[arg(add = complete::tokens())]
    id: String,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Args)]
struct Show {
    /// The token's id or name [default: the token in use]
    #[arg(add = complete::tokens())]
    id: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Args)]
struct Rotate {
    /// How long the old text stays valid [default: not at all]
    #[arg(long, value_name = "DURATION", value_parser = human::parse_duration)]
    overlap: Option<Seconds>,
    #[command(flatten)]
    named: TokenArgs,
}

/// What helps if the host does not know a token.
const LISTED: &str = "`host token ls` lists the tokens";

/// Reads `100/s`.
fn rate(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix("/s").unwrap_or(text);
    let form = "expected a number of requests per second, such as 100/s";
    number.parse().map_err(|_| form.to_owned())
}

impl Token {
    /// Runs the verb.
    pub(crate) fn run(self) -> Result<(), CliError> {
        match self.verb {
            Verb::Create(create) => self::create(*create),
            Verb::Ls(remote) => ls(&remote),
            Verb::Show(show) => self::show(&show),
            Verb::Revoke(named) => revoke(&named),
            Verb::Rotate(rotate) => self::rotate(&rotate),
        }
    }
}

fn create(create: Create) -> Result<(), CliError> {
    let (client, output) = create.remote.open()?;
    let doing = format!("create the token {}", plain::line(&create.name));
    let body = NewTokenBody {
        name: create.name,
        role: create.role,
        allow: create.allow,
        queues: create.queue,
        handlers: create.handler,
        expires_seconds: create.expires,
        from: create.from,
        rate: create.rate,
        max_waiting: create.max_waiting,
    };
    let answer = client.create_token(&body).map_err(cannot(&doing))?;
    let view = &answer.view;
    output.print_item(&answer.json, &plain::line(&view.token), || {
        put_line(&plain::line(&view.token))
    })?;
    let id = plain::line(&view.view.id);
    let until = view
        .view
        .expires_at
        .as_deref()
        .map(plain::line)
        .map(|at| format!("; it expires at {at}"));
    output.note(&format!(
        "token {id} allows {}{}",
        plain::line(&view.view.verbs.join(", ")),
        until.unwrap_or_default()
    ));
    Ok(())
}

fn ls(remote: &Remote) -> Result<(), CliError> {
    let (client, output) = remote.open()?;
    let tokens = client.tokens().map_err(cannot("list tokens"))?;
    let now = tokens.now;
    let table = |items: &[Item<TokenView>]| {
        let mut rows = Rows::new(&[
            Column::Left("ID"),
            Column::Left("NAME"),
            Column::Left("VERBS"),
            Column::Left("QUEUES"),
            Column::Left("HANDLERS"),
            Column::Left("LAST USED"),
            Column::Left("EXPIRES"),
        ]);
        for Item { view, .. } in items {
            let used = view
                .last_used_at
                .as_deref()
                .map_or("never".to_owned(), |at| human::ago(now, Some(at)));
            rows.row(vec![
                Cell::new(plain::line(&view.id)),
                Cell::new(plain::line(&view.name)),
                Cell::new(plain::line(&view.verbs.join(","))),
                Cell::new(all_or(&view.queues)),
                Cell::new(all_or(&view.handlers)),
                Cell::new(used),
                Cell::new(plain::line(view.expires_at.as_deref().unwrap_or("never"))),
            ]);
        }
        rows
    };
    output.list(&tokens.items, |token| &token.id, || table(&tokens.items))?;
    output.hint(if tokens.items.is_empty() {
        "there are no tokens; `host token create NAME --role ROLE` makes one"
    } else {
        "`host token revoke NAME` revokes a token"
    });
    Ok(())
}

fn all_or(globs: &[String]) -> String {
    if globs.is_empty() {
        "all".to_owned()
    } else {
        plain::line(&globs.join(",")).into_owned()
    }
}

fn show(show: &Show) -> Result<(), CliError> {
    let (client, output) = show.remote.open()?;
    let Some(id) = &show.id else {
        let answer = client.own_token().map_err(cannot("show the token"))?;
        let view = &answer.view;
        return output.print_item(&answer.json, &plain::line(&view.principal), || {
            if let Some(token) = &view.token {
                return put(output, token, view.waiting);
            }
            let mut rows = Rows::pairs();
            rows.pair(
                "principal",
                &match view.principal.as_str() {
                    "" => "anyone: this host asks for no tokens".into(),
                    principal => plain::line(principal),
                },
            );
            rows.pair("verbs", &plain::line(&view.verbs.join(", ")));
            output.rows(rows)
        });
    };
    let doing = format!("show token {}", plain::line(id));
    let answer = client.token(id).map_err(cannot_find(&doing, LISTED))?;
    output.print_item(&answer.json, &plain::line(&answer.view.id), || {
        put(output, &answer.view, None)
    })
}

fn put(output: Output, token: &TokenView, waiting: Option<u64>) -> Result<(), CliError> {
    let mut rows = Rows::pairs();
    let mut pair = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            rows.pair(key, &plain::line(&value));
        }
    };
    pair("id", Some(token.id.clone()));
    pair("name", Some(token.name.clone()));
    pair("verbs", Some(token.verbs.join(", ")));
    pair("queues", Some(all_or(&token.queues)));
    pair("handlers", Some(all_or(&token.handlers)));
    pair("from", Some(all_or(&token.from)));
    pair("made by", Some(token.created_by.clone()));
    pair("made at", Some(token.created_at.clone()));
    pair("expires", token.expires_at.clone());
    pair("last used", token.last_used_at.clone());
    pair("overlap until", token.overlaps_until.clone());
    pair("rate", token.rate.map(|rate| format!("{rate}/s")));
    let most = token.max_waiting.map(|most| match waiting {
        Some(waiting) => format!("{waiting} of {most}"),
        None => most.to_string(),
    });
    pair("waiting jobs", most);
    output.rows(rows)
}

fn revoke(named: &TokenArgs) -> Result<(), CliError> {
    let (client, output) = named.remote.open()?;
    let id = plain::line(&named.id);
    let doing = format!("revoke token {id}");
    let answer = client
        .revoke_token(&named.id)
        .map_err(cannot_find(&doing, LISTED))?;
    output.print_item(&answer.json, &id, || put_line(&format!("{id} is revoked")))
}

fn rotate(rotate: &Rotate) -> Result<(), CliError> {
    let (client, output) = rotate.named.remote.open()?;
    let id = plain::line(&rotate.named.id);
    let doing = format!("rotate token {id}");
    let body = RotateBody {
        overlap_seconds: rotate.overlap,
    };
    let answer = client
        .rotate_token(&rotate.named.id, &body)
        .map_err(cannot_find(&doing, LISTED))?;
    let token = plain::line(&answer.view.token);
    output.print_item(&answer.json, &token, || put_line(&token))
}
