//! Templates, markup and words.

use std::collections::BTreeMap;

use guest_sdk::{Category, Ctx, Error, handler};
use minijinja::Environment;
use minijinja::value::Serde;
use pulldown_cmark::{Options, Parser, html};
use scraper::{Html, Selector};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Writes a mail from a template that is a file of the crate.
#[handler]
pub(crate) fn mail(_ctx: &Ctx, params: Value) -> Result<String, Error> {
    let mut templates = Environment::new();
    templates.add_template("mail.html", include_str!("mail.html"))?;
    Ok(templates.get_template("mail.html")?.render(Serde(params))?)
}

/// Makes HTML of Markdown with tables.
#[handler("to-html")]
pub(crate) fn to_html(_ctx: &Ctx, params: String) -> Result<String, Error> {
    let mut text = String::new();
    html::push_html(&mut text, Parser::new_ext(&params, Options::ENABLE_TABLES));
    Ok(text)
}

#[derive(Serialize)]
pub(crate) struct Offer {
    name: String,
    price: String,
}

/// Takes prices from a page whose tags are not all closed.
#[handler]
pub(crate) fn scrape(_ctx: &Ctx, params: String) -> Result<Vec<Offer>, Error> {
    let select = |css| Selector::parse(css).map_err(|error| Error::fatal("selector", error));
    let (rows, names, prices) = (
        select("table.prices tr")?,
        select("td:not(.price)")?,
        select("td.price")?,
    );
    let page = Html::parse_document(&params);
    let offers = page.select(&rows).filter_map(|row| {
        let text = |selector| {
            let cell = row.select(selector).next()?;
            let words: String = cell.text().collect();
            Some(words.split_whitespace().collect::<Vec<_>>().join(" "))
        };
        Some(Offer {
            name: text(&names)?,
            price: text(&prices)?,
        })
    });
    Ok(offers.collect())
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    listen: String,
    #[serde(default)]
    retries: u8,
    servers: BTreeMap<String, Server>,
}

#[derive(Deserialize, Serialize)]
struct Server {
    url: String,
    weight: f64,
}

/// Reads a configuration in TOML, and says where it is wrong.
#[handler]
pub(crate) fn config(_ctx: &Ctx, params: String) -> Result<Config, Error> {
    toml::from_str(&params).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let line = params[..at].lines().count().max(1);
        let message = format!("line {line}: {}", error.message());
        Error::new(Category::DataQuality, "invalid_config", message)
    })
}

/// Counts words, the most frequent ones first.
#[handler]
pub(crate) fn words(_ctx: &Ctx, params: String) -> Result<Vec<(String, usize)>, Error> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let words = params
        .split(|it: char| !it.is_alphanumeric())
        .filter(|it| !it.is_empty());
    for word in words {
        *counts.entry(word.to_lowercase()).or_default() += 1;
    }
    let mut words: Vec<_> = counts.into_iter().collect();
    words.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    Ok(words)
}

/// Shortens names to a number of characters, not bytes, and marks what was cut.
#[handler]
pub(crate) fn names(ctx: &Ctx, params: Vec<String>) -> Result<Vec<String>, Error> {
    let short = |name: String| match name.char_indices().nth(8) {
        Some((end, _)) => {
            ctx.info(format_args!("{name} is long"));
            format!("{}…", &name[..end])
        }
        None => name,
    };
    Ok(params.into_iter().map(short).collect())
}
