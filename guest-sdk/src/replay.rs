//! Answers requests of handlers from a recording, in tests. Its format is HAR 1.2, which developer tools of browsers
//! and proxies write, and of which the fields below are all that is read.

use std::cell::RefCell;

use serde::Deserialize;

use crate::request::{HttpError, HttpErrorKind, HttpRequest, HttpResponse};

/// Headers that are no longer true of a recorded body.
const DROPPED: [&str; 4] = [
    "connection",
    "content-encoding",
    "content-length",
    "transfer-encoding",
];

#[derive(Deserialize)]
struct Recording {
    log: Log,
}

#[derive(Deserialize)]
struct Log {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    request: Recorded,
    response: Answer,
    #[serde(skip)]
    is_used: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Recorded {
    method: String,
    url: String,
    post_data: Option<Body>,
}

#[derive(Deserialize)]
struct Answer {
    status: u16,
    #[serde(default)]
    headers: Vec<Header>,
    #[serde(default)]
    content: Body,
}

#[derive(Deserialize)]
struct Header {
    name: String,
    value: String,
}

#[derive(Default, Deserialize)]
struct Body {
    text: Option<String>,
    encoding: Option<String>,
}

impl Recorded {
    fn is_of(&self, request: &HttpRequest) -> bool {
        let body = self.post_data.as_ref().and_then(|body| body.text.as_ref());
        self.method == request.method
            && self.url == request.url
            && body.is_none_or(|body| body.as_bytes() == request.body)
    }
}

impl Answer {
    fn response(&self) -> Result<HttpResponse, String> {
        // Recorders write 0 if there was no response.
        if self.status == 0 {
            return Err("got no response when it was recorded".to_owned());
        }
        let headers = self.headers.iter().map(|header| {
            let name = header.name.to_ascii_lowercase();
            (name, header.value.clone())
        });
        let is_kept = |(name, _): &(String, String)| {
            !name.starts_with(':') && !DROPPED.contains(&name.as_str())
        };
        let text = self.content.text.as_deref().unwrap_or_default();
        let body = match self.content.encoding.as_deref() {
            None => Some(text.as_bytes().to_vec()),
            Some("base64") => base64(text),
            Some(_) => None,
        };
        Ok(HttpResponse {
            status: self.status,
            headers: headers.filter(is_kept).collect(),
            body: body.ok_or("has a body that is neither text nor base64")?,
        })
    }
}

/// Returns what answers requests as they were answered in a recording. Each entry is used once, in order, and the last
/// one of a request again and again.
///
/// # Panics
///
/// If it is not in the format HAR.
pub(crate) fn answers(
    har: &str,
) -> impl Fn(&HttpRequest) -> Result<HttpResponse, HttpError> + use<> {
    let recording: Recording =
        serde_json::from_str(har).expect("the recording is in the format HAR");
    let entries = RefCell::new(recording.log.entries);
    move |request| {
        let mut entries = entries.borrow_mut();
        let of_request = || (0..entries.len()).filter(|at| entries[*at].request.is_of(request));
        let next = of_request().find(|at| !entries[*at].is_used);
        let answered = match next.or_else(|| of_request().next_back()) {
            None => Err("is not in the recording".to_owned()),
            Some(at) => {
                entries[at].is_used = true;
                entries[at].response.response()
            }
        };
        answered.map_err(|cause| HttpError {
            kind: HttpErrorKind::Unreachable,
            message: format!("{} {} {cause}", request.method, request.url),
        })
    }
}

fn base64(text: &str) -> Option<Vec<u8>> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut value, mut bits) = (Vec::new(), 0, 0);
    for byte in text.trim_end_matches('=').bytes() {
        let digit = DIGITS.iter().position(|it| *it == byte)?;
        value = (value << 6 | digit) & 0xfff;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(value >> bits & 0xff).ok()?);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MockHost;

    /// The SDKs in other languages read the same file.
    const HAR: &str = include_str!("../../sdk/recording.har");

    fn status(sent: Result<HttpResponse, HttpError>) -> Result<u16, String> {
        sent.map(|response| response.status)
            .map_err(|error| error.message)
    }

    #[test]
    fn requests_are_answered_as_they_were_recorded() {
        let ctx = MockHost::new().replay(HAR).ctx();
        let rows = || ctx.http().get("https://a.com/rows").send();
        let first = rows().unwrap();
        assert_eq!(first.text(), "[1]");
        let headers = [("content-type".to_owned(), "application/json".to_owned())];
        assert_eq!(first.headers, headers);
        for _ in 0..2 {
            assert_eq!(status(rows()), Ok(503), "the last one stays");
        }
        let post = |body: &str| status(ctx.http().post("https://a.com/rows").body(body).send());
        assert_eq!(post("7"), Ok(201));
        let message = "POST https://a.com/rows is not in the recording";
        assert_eq!(post("8"), Err(message.to_owned()));
        let picture = ctx.http().get("https://a.com/picture").send().unwrap();
        assert_eq!(picture.body, [0, 0xff, 0x90, 0xff]);
        let blocked = status(ctx.http().get("https://a.com/blocked").send());
        assert!(blocked.unwrap_err().contains("got no response"));
    }

    #[test]
    fn bytes_come_out_of_base64() {
        for (text, bytes) in [
            ("", &b""[..]),
            ("Zg==", b"f"),
            ("Zm8=", b"fo"),
            ("Zm9v", b"foo"),
            ("Zm9vYg", b"foob"),
        ] {
            assert_eq!(base64(text).unwrap(), bytes);
        }
        assert_eq!(base64("Zm9*"), None);
    }

    #[test]
    #[should_panic(expected = "the recording is in the format HAR")]
    fn another_format_is_no_recording() {
        let _host = MockHost::new().replay("[]");
    }
}
