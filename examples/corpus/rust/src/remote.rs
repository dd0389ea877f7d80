//! Servers and what they sign.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use guest_sdk::{Category, Ctx, Error, handler};
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::Sha256;
use url::Url;

#[derive(Deserialize)]
struct Page {
    rows: Vec<u32>,
    next: Option<String>,
}

/// Follows pages, and reports progress.
#[handler]
pub(crate) fn pages(ctx: &Ctx, origin: String) -> Result<Vec<u32>, Error> {
    let mut rows = Vec::new();
    let mut next = Some("/rows?page=1".to_owned());
    while let Some(path) = next {
        ctx.check_cancelled()?;
        let page: Page = ctx
            .http()
            .get(origin.clone() + &path)
            .send()?
            .ok()?
            .json()?;
        rows.extend(page.rows);
        next = page.next;
        ctx.progress(50.0, format_args!("{} rows", rows.len()));
    }
    Ok(rows)
}

/// An animal, as a document of `OpenAPI` with `oneOf` and a discriminator describes it.
#[derive(Deserialize, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum Pet {
    Cat {
        name: String,
        lives: u8,
    },
    Dog {
        name: String,
        #[serde(default)]
        tricks: Vec<String>,
    },
}

/// A client as generators of `OpenAPI` make it: a method for each operation, and its errors by type.
struct Pets<'a> {
    ctx: &'a Ctx,
    origin: &'a str,
}

#[derive(Deserialize)]
struct Problem {
    title: String,
}

impl Pets<'_> {
    fn find(&self, id: u32) -> Result<Pet, Error> {
        let url = format!("{}/pets/{id}", self.origin);
        let answer = self
            .ctx
            .http()
            .get(url)
            .header("accept", "application/json")
            .send()?;
        if answer.status == 404 {
            let problem: Problem = answer.json()?;
            let error = Error::new(Category::DataQuality, "not_found", problem.title);
            return Err(error.code("404"));
        }
        answer.ok()?.json()
    }

    fn create(&self, pet: &Pet) -> Result<u32, Error> {
        #[derive(Deserialize)]
        struct Created {
            id: u32,
        }
        let request = self.ctx.http().post(format!("{}/pets", self.origin));
        // The job's id makes a second attempt the same request.
        let once = request.header("idempotency-key", &self.ctx.job().id);
        let answer = once.json(pet)?.send()?.ok()?;
        Ok(answer.json::<Created>()?.id)
    }
}

#[derive(Deserialize)]
pub(crate) struct FindPet {
    origin: String,
    id: u32,
}

/// Finds a pet by a client of an `OpenAPI` document.
#[handler("find-pet")]
pub(crate) fn find_pet(ctx: &Ctx, params: FindPet) -> Result<Pet, Error> {
    let origin = &params.origin;
    Pets { ctx, origin }.find(params.id)
}

#[derive(Deserialize)]
pub(crate) struct NewPet {
    origin: String,
    pet: Pet,
}

/// Sends a pet to the same server.
#[handler("new-pet")]
pub(crate) fn new_pet(ctx: &Ctx, params: NewPet) -> Result<u32, Error> {
    let origin = &params.origin;
    Pets { ctx, origin }.create(&params.pet)
}

#[derive(Deserialize)]
pub(crate) struct Form {
    origin: String,
    fields: Vec<(String, String)>,
}

/// Sends a form, and returns what was sent with the status of the answer.
#[handler]
pub(crate) fn form(ctx: &Ctx, params: Form) -> Result<(String, u16), Error> {
    let body = serde_urlencoded::to_string(&params.fields)?;
    let request = ctx
        .http()
        .post(params.origin + "/form")
        .header("content-type", "application/x-www-form-urlencoded")
        .body(body.clone());
    Ok((body, request.send()?.ok()?.status))
}

fn signed(key: &str, text: &str) -> Result<Hmac<Sha256>, Error> {
    let mac = Hmac::<Sha256>::new_from_slice(key.as_bytes())?;
    Ok(mac.chain_update(text))
}

#[derive(Deserialize)]
pub(crate) struct Webhook {
    secret: String,
    header: String,
    body: String,
    now: u64,
}

/// Verifies who sent a webhook, by HMAC-SHA-256 of time and body in constant time, and refuses old ones.
#[handler]
pub(crate) fn webhook(_ctx: &Ctx, params: Webhook) -> Result<Value, Error> {
    let forged = |why| Error::new(Category::DataQuality, "forged", why);
    let part = |name| {
        let mut parts = params.header.split(',').filter_map(|it| it.split_once('='));
        let value = parts.find_map(|(key, value)| (key == name).then_some(value));
        value.ok_or_else(|| forged("the header lacks a part"))
    };
    let (time, signature) = (part("t")?, part("v1")?);
    let digits = signature.as_bytes().chunks(2);
    let bytes: Result<Vec<u8>, _> = digits
        .map(|pair| u8::from_str_radix(&String::from_utf8_lossy(pair), 16))
        .collect();
    signed(&params.secret, &format!("{time}.{}", params.body))?
        .verify_slice(&bytes?)
        .map_err(|_| forged("the signature is wrong"))?;
    if params.now.abs_diff(time.parse()?) > 300 {
        return Err(forged("the webhook is old"));
    }
    Ok(serde_json::from_str(&params.body)?)
}

#[derive(Deserialize)]
pub(crate) struct Token {
    secret: String,
    token: String,
    now: u64,
}

/// Checks a token (JWT, HS256) and returns its claims.
#[handler]
pub(crate) fn token(_ctx: &Ctx, params: Token) -> Result<Value, Error> {
    let refuse = |why| Error::new(Category::DataQuality, "invalid_token", why);
    let decode = |part| {
        let bytes = URL_SAFE_NO_PAD
            .decode(part)
            .map_err(|_| refuse("the token is not base64"))?;
        serde_json::from_slice::<Value>(&bytes).map_err(|_| refuse("the token is not JSON"))
    };
    let [head, claims, signature] = params.token.split('.').collect::<Vec<_>>()[..] else {
        return Err(refuse("the token has not three parts"));
    };
    if decode(head)?["alg"] != "HS256" {
        return Err(refuse("the token is not signed with HS256"));
    }
    let signature = URL_SAFE_NO_PAD.decode(signature)?;
    signed(&params.secret, &format!("{head}.{claims}"))?
        .verify_slice(&signature)
        .map_err(|_| refuse("the signature is wrong"))?;
    let claims = decode(claims)?;
    if claims["exp"].as_u64().is_none_or(|end| end <= params.now) {
        return Err(refuse("the token has expired"));
    }
    Ok(claims)
}

/// Makes addresses of links comparable: absolute, sorted, without what only trackers need.
#[handler]
pub(crate) fn urls(_ctx: &Ctx, params: Vec<String>) -> Result<Vec<String>, Error> {
    let base = Url::parse("https://example.com/shop/")?;
    let normalize = |link: &String| {
        let mut url = base.join(link)?;
        let mut pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
        pairs.retain(|(key, _)| !key.starts_with("utm_"));
        pairs.sort();
        url.set_fragment(None);
        url.set_query(None);
        if !pairs.is_empty() {
            url.query_pairs_mut().extend_pairs(pairs);
        }
        Ok(url.into())
    };
    params.iter().map(normalize).collect()
}
