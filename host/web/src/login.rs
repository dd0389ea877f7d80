//! The login: a browser presents a token once and gets the cookie of a session, which it shows instead from then on.

use askama::Template;
use axum::http::header::{AUTHORIZATION, REFERER, SET_COOKIE, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::response::Response;
use host_api::path;
use serde::Deserialize;

use crate::ask::{Ask, Problem};
use crate::form::Form;
use crate::page::{self, Frame};

#[derive(Template)]
#[template(path = "login.html")]
struct Page {
    frame: Frame,
    /// Why the last try did not let anyone in.
    wrong: String,
    /// The page that was asked for, if it is known.
    to: String,
}

/// The body of the form.
#[derive(Deserialize)]
pub(crate) struct Presented {
    token: String,
    /// Empty on the first try, which is made on the page itself.
    #[serde(default)]
    to: String,
}

/// Asks for a token, at the address of the page that needs one.
pub(crate) fn ask() -> Response {
    answer(StatusCode::UNAUTHORIZED, String::new(), String::new())
}

fn answer(status: StatusCode, wrong: String, to: String) -> Response {
    let frame = Frame::new("Log in", "");
    let mut answer = page::with_status(status, &Page { frame, wrong, to });
    let scheme = const { HeaderValue::from_static("Bearer realm=\"host\"") };
    answer.headers_mut().insert(WWW_AUTHENTICATE, scheme);
    answer
}

/// Begins a session, and continues to the page that was asked for.
pub(crate) async fn login(
    ask: Ask,
    headers: HeaderMap,
    Form(presented): Form<Presented>,
) -> Result<Response, Problem> {
    let to = if presented.to.is_empty() {
        let referer = headers.get(REFERER).and_then(|it| it.to_str().ok());
        referer.map(page_of).unwrap_or_default()
    } else {
        page_of(&presented.to)
    };
    let bearer = format!("Bearer {}", presented.token.trim());
    let Ok(mut bearer) = HeaderValue::try_from(bearer) else {
        let wrong = "That is not a token: a token begins with hst_.".to_owned();
        return Ok(answer(StatusCode::UNAUTHORIZED, wrong, to));
    };
    bearer.set_sensitive(true);
    let begun = ask.with(AUTHORIZATION, bearer);
    match begun.send(Method::POST, path::SESSIONS).await {
        Ok(headers) => Ok(see_with(&headers, if to.is_empty() { "/" } else { &to })),
        Err(problem) if [401, 429].contains(&problem.status.as_u16()) => {
            let wrong = match problem.status {
                StatusCode::UNAUTHORIZED => {
                    "This host does not accept that token. It may be mistyped, expired or revoked."
                        .to_owned()
                }
                _ => problem.detail,
            };
            Ok(answer(problem.status, wrong, to))
        }
        Err(problem) => Err(problem),
    }
}

/// Ends the session.
pub(crate) async fn logout(ask: Ask) -> Result<Response, Problem> {
    let headers = ask.send(Method::DELETE, path::SESSIONS_SELF).await?;
    Ok(see_with(&headers, "/"))
}

/// Goes to a page with the cookie that the API has set.
fn see_with(headers: &HeaderMap, page: &str) -> Response {
    let mut response = crate::see(page);
    if let Some(cookie) = headers.get(SET_COOKIE) {
        response.headers_mut().insert(SET_COOKIE, cookie.clone());
    }
    response
}

/// Returns the page of ours that an address leads to, or nothing if it leads elsewhere.
fn page_of(address: &str) -> String {
    let uri = address.parse::<Uri>().ok();
    let page = uri.as_ref().and_then(Uri::path_and_query);
    let shows = |page: &str| {
        let (path, _) = page.split_once('?').unwrap_or((page, ""));
        let below = ["/jobs/", "/handlers/", "/components/"];
        let is_section = page::is_section(path);
        is_section || (path != "/jobs/change" && below.iter().any(|it| path.starts_with(it)))
    };
    let page = page.map(ToString::to_string).filter(|page| shows(page));
    page.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_leads_to_our_own_pages_only() {
        for (address, page) in [
            (
                "https://jobs.example:7700/jobs?q=state:running",
                "/jobs?q=state:running",
            ),
            ("/components/mail", "/components/mail"),
            ("http://localhost/", "/"),
            ("http://elsewhere.example//evil.example/jobs/", ""),
            ("//evil.example/jobs", ""),
            ("/login", ""),
            ("/jobs/change", ""),
            ("javascript:alert(1)", ""),
            ("/\\evil.example", ""),
            ("", ""),
        ] {
            assert_eq!(page_of(address), page, "{address}");
        }
    }
}
