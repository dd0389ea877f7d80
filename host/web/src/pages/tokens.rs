//! Tokens: creating, rotating and revoking them. The text of a token is shown once.

use askama::Template;
use axum::extract::Query;
use axum::response::Response;
use host_api::page::PageView;
use host_api::path;
use host_api::token::{MintedView, NewTokenBody, RevokedView, RotateBody, TokenView};
use host_core::seconds::Seconds;
use serde::Deserialize;

use super::job::unknown_action;
use super::{ALL, Live};
use crate::ask::{Ask, Problem};
use crate::form::Form;
use crate::format::NAMES_SHOWN;
use crate::page::{Confirm, Frame, show, show_part};

/// The roles, the one that may do least first.
const ROLES: &[&str] = &["viewer", "producer", "operator", "deployer", "admin"];

/// A day, in milliseconds.
const DAY_MS: u64 = 24 * 3_600_000;

#[derive(Template)]
#[template(path = "tokens.html")]
struct Page<'a> {
    frame: Frame,
    tokens: &'a [TokenView],
    minted: Option<&'a str>,
    minted_name: &'a str,
    roles: &'static [&'static str],
}

/// A button of the page, and what its form says.
#[derive(Deserialize)]
pub(crate) struct Clicked {
    action: String,
    #[serde(default)]
    sure: bool,
    #[serde(default)]
    id: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    role: String,
    #[serde(default)]
    queues: String,
    #[serde(default)]
    handlers: String,
    #[serde(default)]
    days: String,
}

pub(crate) async fn list(ask: Ask, Query(part): Query<Live>) -> Result<Response, Problem> {
    page(&ask, None, part.from).await
}

async fn page(ask: &Ask, minted: Option<MintedView>, from: usize) -> Result<Response, Problem> {
    let tokens: PageView<TokenView> = ask.get(path::TOKENS, &ALL).await?;
    let (minted, minted_name) = minted.map(|it| (it.token, it.view.name)).unzip();
    let frame = ask
        .frame("Tokens", "/tokens")
        .same_as("token ls", path::TOKENS);
    Ok(show_part(&tokens.items, from, |tokens, next| Page {
        frame: frame.followed_by("/tokens", next),
        tokens,
        minted: minted.as_deref(),
        minted_name: minted_name.as_deref().unwrap_or_default(),
        roles: ROLES,
    }))
}

/// Does what a button of the page says. Only a new text is answered with a page immediately: it is nowhere else.
pub(crate) async fn act(ask: Ask, Form(asked): Form<Clicked>) -> Result<Response, Problem> {
    let id = asked.id.as_str();
    match asked.action.as_str() {
        "create" => {
            let token = new(&asked)?;
            let minted = ask.post(path::TOKENS, &ALL, &token).await?;
            page(&ask, Some(minted), 0).await
        }
        "rotate" if !asked.sure => Ok(confirm(
            &ask,
            asked,
            "Rotate token",
            "Its old text stops working immediately.",
            "Rotate",
        )),
        "rotate" => {
            let route = path::with_name(path::TOKEN_ROTATE, id);
            let minted = ask.post(&route, &ALL, &RotateBody::default()).await?;
            page(&ask, Some(minted), 0).await
        }
        "revoke" if !asked.sure => Ok(confirm(
            &ask,
            asked,
            "Revoke token",
            "It stops working immediately.",
            "Revoke",
        )),
        "revoke" => {
            let _: RevokedView = ask.delete(&path::with_name(path::TOKEN, id)).await?;
            Ok(crate::see("/tokens"))
        }
        _ => Err(unknown_action()),
    }
}

fn new(asked: &Clicked) -> Result<NewTokenBody, Problem> {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
    let text = asked.days.trim();
    let in_range: Option<u64> = text.parse().ok().filter(|text| (1..=365).contains(text));
    let days = in_range.ok_or_else(|| {
        let detail = format!("days must be 1–365, got {:?}", asked.days);
        Problem::bad_request("No token was created", detail, "Go back and correct it.")
    })?;
    Ok(NewTokenBody {
        name: asked.name.clone(),
        role: Some(asked.role.clone()),
        queues: words(&asked.queues),
        handlers: words(&asked.handlers),
        expires_seconds: Some(Seconds { ms: days * DAY_MS }),
        ..NewTokenBody::default()
    })
}

fn confirm(ask: &Ask, asked: Clicked, question: &str, effect: &str, button: &str) -> Response {
    show(&Confirm {
        frame: ask.frame(format!("{question}?"), "/tokens"),
        question: format!("{question} {}? {effect}", asked.id),
        samples: Vec::new(),
        to: "/tokens".to_owned(),
        fields: vec![("action", asked.action), ("id", asked.id)],
        typed: None,
        button: button.to_owned(),
        back: "/tokens".to_owned(),
    })
}
