//! Hides secrets that a server sends back.

use host_core::egress::HttpResponse;
use host_core::secret::Revealed;
use memchr::memmem;

/// Replaces the values of `secrets` in all parts of the response. A server that encodes or splits a value can
/// still give it away.
pub(crate) fn mask(response: &mut HttpResponse, secrets: &Revealed) {
    for secret in secrets.hidden().iter().filter(|it| !it.value.is_empty()) {
        let shown = secret.shown();
        for (name, value) in &mut response.headers {
            secret.mask(name);
            secret.mask(value);
        }
        if let Some(masked) = masked(&response.body, secret.value.as_bytes(), shown.as_bytes()) {
            response.body = masked;
        }
    }
}

/// Returns `body` with each `value` replaced, if there is one.
fn masked(body: &[u8], value: &[u8], shown: &[u8]) -> Option<Vec<u8>> {
    let finder = memmem::Finder::new(value);
    let mut places = finder.find_iter(body).peekable();
    places.peek()?;
    let (mut whole, mut done) = (Vec::with_capacity(body.len()), 0);
    for place in places {
        whole.extend_from_slice(&body[done..place]);
        whole.extend_from_slice(shown);
        done = place + value.len();
    }
    whole.extend_from_slice(&body[done..]);
    Some(whole)
}

#[cfg(test)]
mod tests {
    use host_core::secret::Secret;

    use super::*;

    #[test]
    fn a_reflected_secret_is_masked_everywhere() {
        let mut response = HttpResponse {
            status: 200,
            headers: vec![
                ("x-echo".to_owned(), "Bearer sk_1".to_owned()),
                ("x-sk_1".to_owned(), "a".to_owned()),
            ],
            body: b"sk_1, sk_1sk_1, sk_1_too and sk_2".to_vec(),
        };
        let mut secrets = Revealed::default();
        for (name, value) in [
            ("key", "sk_1"),
            ("none", ""),
            ("other", "absent"),
            ("longer", "sk_1_too"),
        ] {
            secrets.add(Secret {
                name: name.to_owned(),
                value: value.to_owned(),
            });
        }
        mask(&mut response, &secrets);
        assert_eq!(response.headers[0].1, "Bearer {secret:key}");
        assert_eq!(response.headers[1].0, "x-{secret:key}");
        let body = String::from_utf8(response.body).unwrap();
        assert_eq!(
            body,
            "{secret:key}, {secret:key}{secret:key}, {secret:longer} and sk_2"
        );
    }
}
