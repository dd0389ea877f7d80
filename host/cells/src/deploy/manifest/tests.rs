//! Valid and invalid manifests.

use super::*;

#[test]
fn what_is_out_of_range_is_named() {
    let names = "\"a\", ".repeat(65);
    let shared = format!("[handlers.a]\nstate = {{ shared = [{names}] }}");
    let secrets = format!("[handlers.a]\nsecrets = [{names}]");
    let servers = "[[handlers.a.http]]\nto = \"https://a.com\"\n".repeat(65);
    #[rustfmt::skip]
    let table = [
        ("", None),
        ("[defaults]\nmemory_mib = 64\ntimeout_seconds = 0.5", None),
        ("[defaults]\nmemory_mib = 0", Some("[defaults]: invalid value 0 for memory_mib: expected 1–4096")),
        ("[defaults]\nmemory_mib = 4097", Some("[defaults]: invalid value 4097 for memory_mib: expected 1–4096")),
        ("[handlers.a]\nresult_kib = 16385", Some("[handlers.a]: invalid value 16385 for result_kib: expected 0–16384")),
        ("[defaults]\nfuel = 0", Some("[defaults]: invalid value 0 for fuel: expected 1–9223372036854775807")),
        ("[defaults]\ntimeout_seconds = 0", Some("[defaults]: invalid value 0 for timeout_seconds: expected 0.001 or more")),
        ("[defaults]\nmax_attempts = 1\nbackoff = {}", None),
        ("[defaults]\nbackoff = { base_seconds = 0.5, max_seconds = 0.5 }", None),
        ("[handlers.a]\nmax_attempts = 0", Some("[handlers.a]: invalid value 0 for max_attempts: expected 1–4294967295")),
        ("[defaults]\nbackoff = { base_seconds = 0 }",
            Some("[defaults]: invalid value 0 for backoff.base_seconds: expected 0.001 or more")),
        ("[defaults]\nbackoff = { base_seconds = 7200 }",
            Some("[defaults]: invalid value 3600 for backoff.max_seconds: expected at least base_seconds, 7200")),
        ("[defaults]\nretention_seconds = 1\nretention_discarded_seconds = 7776000", None),
        ("[defaults]\nretention_seconds = 0.5", Some("[defaults]: invalid value 0.5 for retention_seconds: expected 1 or more")),
        ("[handlers.a]\nretention_discarded_seconds = 0",
            Some("[handlers.a]: invalid value 0 for retention_discarded_seconds: expected 1 or more")),
        ("[defaults]\nenv = [\"A=B\"]", Some("[defaults]: invalid value \"A=B\" for env: expected a name of letters, digits and `_`")),
        ("[defaults]\nread_dirs = [{ host = \"/a/../b\", guest = \"/b\" }]",
            Some("[defaults]: invalid value \"/a/../b\" for read_dirs: expected an absolute path without `..`")),
        ("[defaults]\nread_dirs = [{ host = \"/a\", guest = \"b\" }]",
            Some("[defaults]: invalid value \"b\" for read_dirs: expected an absolute path without `..`")),
        ("[[handlers.a.http]]\nto = \"https://a.com\"\nmethods = [\"get\"]",
            Some("[handlers.a]: invalid value \"get\" for http.methods: expected the upper-case name of a method")),
        ("[[handlers.a.http]]\nto = \"https://a.com\"\npaths = [\"/{a,b\"]",
            Some("[handlers.a]: invalid value \"/{a,b\" for http.paths: expected a pattern with a `}` for each `{`")),
        ("[[handlers.a.http]]\nto = \"https://a.com\"\npaths = [\"a/**\"]",
            Some("[handlers.a]: invalid value \"a/**\" for http.paths: expected a pattern that starts with `/`")),
        ("[[handlers.a.http]]\nto = \"https://a.com\"\nmax_requests = 0",
            Some("[handlers.a]: invalid value 0 for http.max_requests: expected 1–100000")),
        ("[[handlers.a.http]]\nto = \"https://a.com\"\nmax_response_kib = 16385",
            Some("[handlers.a]: invalid value 16385 for http.max_response_kib: expected 1–16384")),
        ("[[handlers.a.http]]\nto = \"https://a.com\"\nmax_total_mib = 0",
            Some("[handlers.a]: invalid value 0 for http.max_total_mib: expected 1–1048576")),
        ("[[handlers.a.http]]\nto = \"https://a.com\"\ntimeout_seconds = 0",
            Some("[handlers.a]: invalid value 0 for http.timeout_seconds: expected 0.001 or more")),
        ("[[handlers.a.http]]\nto = \"https://a.com\"\nsign = { scheme = \"aws-sigv4\", region = \"eu\", service = \"S3\", key_id = \"a\", secret_key = \"{secret:b}\" }",
            Some("[handlers.a]: invalid value \"S3\" for http.sign.service: expected 1–64 lower-case letters, digits and hyphens")),
        ("[[handlers.a.http]]\nto = \"https://a.com\"\nsign = { scheme = \"aws-sigv4\", region = \"eu\", service = \"s3\", key_id = \"a\", secret_key = \"b\" }",
            Some("[handlers.a]: invalid value a text for http.sign.secret_key: expected {secret:NAME}: a manifest is no place for a key")),
        ("[[handlers.a.http]]\nto = \"https://a.com\"\nheaders = { authorization = \"b\" }\nsign = { scheme = \"aws-sigv4\", region = \"eu\", service = \"s3\", key_id = \"a\", secret_key = \"{secret:b}\" }",
            Some("[handlers.a]: invalid value \"authorization\" for http.headers: expected no header that `sign` sets")),
        ("[[handlers.a.http]]\nto = \"https://a.com\"\noauth = { token_url = \"https://a.com/token\", client_id = \"a\", client_secret = \"b\" }",
            Some("[handlers.a]: invalid value a text for http.oauth.client_secret: expected {secret:NAME}: a manifest is no place for a key")),
        ("[[handlers.a.http]]\nto = \"https://a.com\"\noauth = { token_url = \"https://a.com/token\", client_id = \"a\" }",
            Some("[handlers.a]: invalid value a table for http.oauth: expected client_id and client_secret, or service_account")),
        ("[[handlers.a.http]]\nto = \"https://a.com\"\nheaders = { authorization = \"b\" }\noauth = { token_url = \"https://a.com/token\", service_account = \"{secret:b}\" }",
            Some("[handlers.a]: invalid value \"authorization\" for http.headers: expected no header that `oauth` sets")),
        ("[handlers.a]\nsecrets = [\"a b\"]",
            Some("[handlers.a]: invalid value \"a b\" for secrets: expected a secret's name: 1–64 letters, digits, `-` and `_`")),
        ("[handlers.a]\nstate = { quota_kib = 0 }", Some("[handlers.a]: invalid value 0 for state.quota_kib: expected 1–1048576")),
        (&shared,
            Some("[handlers.a]: invalid value 65 entries for state.shared: expected at most 64")),
        (&servers,
            Some("[handlers.a]: invalid value 65 entries for http: expected at most 64")),
        (&secrets,
            Some("[handlers.a]: invalid value 65 entries for secrets: expected at most 64")),
    ];
    for (text, refusal) in table {
        let checked = parse(text).and_then(|manifest| check(&manifest));
        let message = checked.err().map(|error| error.to_string());
        assert_eq!(message.as_deref(), refusal, "{text}");
    }
}

#[test]
fn what_no_manifest_has_is_named_with_its_place() {
    for (text, names) in [
        ("[defaults]\nmemory = 64", "memory"),
        ("nmae = \"a\"", "nmae"),
        ("name = \"a b\"", "name"),
        (
            "[defaults]\nmemory_mib = -1",
            "expected a whole number that is not negative, got -1",
        ),
        (
            "[[handlers.a.http]]\nto = \"https://a.com\"\noauth = { token_url = \"login.a.com\" }",
            "expected the URL of a token endpoint such as https://login.example.com/oauth/token, got \"login.a.com\"",
        ),
        (
            "[[handlers.a.http]]\nto = \"https://a.com\"\noauth = { token_url = \"https://*.a.com/token\" }",
            "expected the URL of a token endpoint",
        ),
        ("[defaults]\nbackoff = 3", "expected a table, got 3"),
        ("[defaults]\nbackoff = { base = 3 }", "base"),
        ("defaults = 3", "expected a table, got 3"),
        (
            "[defaults]\nread_dirs = [\"/a\"]",
            "expected a table, got \"/a\"",
        ),
        ("[handlers.\"a b\"]\nfuel = 1", "a b"),
        ("[", "line 1"),
    ] {
        let message = parse(text).unwrap_err().to_string();
        assert!(message.contains(names), "{text}: {message}");
    }
}

#[test]
fn a_section_without_a_handler_is_refused() {
    let manifest = parse("[handlers.a]\nfuel = 1\n[handlers.b]\nfuel = 1").unwrap();
    let handler = |name: &str| HandlerInfo {
        name: name.parse().unwrap(),
        description: None,
        params_schema: None,
        result_schema: None,
    };
    assert_eq!(fits(&manifest, &[handler("a"), handler("b")]), Ok(()));
    let message = fits(&manifest, &[handler("a"), handler("c")])
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("handler b") && message.contains("a, c"),
        "{message}"
    );
}
