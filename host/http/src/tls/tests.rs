//! Files that can be used, and those that cannot.

use std::fs;

use host_core::time::Time;

use super::{Pattern, Tls, TlsFiles};
use crate::tests::certificates::{Authority, EXPIRED, NOT_YET, VALID, replace};

/// 2026-01-01.
const NOW: Time = Time(1_767_225_600_000);

const WEAK: [&str; 2] = [
    include_str!("tests/weak.pem"),
    include_str!("tests/weak.key"),
];

#[test]
fn what_cannot_be_used_is_named_with_its_file() {
    let authority = Authority::new();
    let good = authority.server();
    authority.sign(("other", "localhost"), VALID);
    let write = |name: &str, text: &str| {
        let path = authority.path(name);
        fs::write(&path, text).unwrap();
        path
    };
    let half = fs::read_to_string(&good.certificate)
        .unwrap()
        .replace("MII", "!!!");
    let with = |certificate, key| TlsFiles {
        certificate,
        key,
        clients: None,
    };
    let (certificate, key) = (good.certificate.clone(), good.key.clone());
    let encrypted =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMII=\n-----END ENCRYPTED PRIVATE KEY-----";
    let [weak, weak_key] = WEAK;
    #[rustfmt::skip]
    let table = [
        (with(authority.path("gone"), key.clone()),              "cannot read", "gone"),
        (with(write("empty", ""), key.clone()),                  "no certificate", "empty"),
        (with(key.clone(), key.clone()),                         "no certificate", "server.key"),
        (with(write("half", &half), key.clone()),                "damaged", "half"),
        (with(write("large", &"x".repeat(2 << 20)), key.clone()), "larger than 1 MiB", "large"),
        (with(certificate.clone(), authority.path("gone")),      "cannot read", "gone"),
        (with(certificate.clone(), certificate.clone()),         "no private key", "server.pem"),
        (with(certificate.clone(), write("locked", encrypted)),  "encrypted", "locked"),
        (with(certificate.clone(), authority.path("other.key")), "does not belong", "other.key"),
        (with(write("w.pem", weak), write("w.key", weak_key)),   "weak: RSA with 1024 bits", "w.key"),
    ];
    for (files, says, file) in table {
        let error = Tls::load(files).unwrap_err().to_string();
        assert!(error.contains(says) && error.contains(file), "{error}");
    }
    let mut mutual = authority.mutual_server(&["*"]);
    mutual.clients.as_mut().unwrap().authorities = authority.path("empty");
    let error = Tls::load(mutual).unwrap_err().to_string();
    assert!(error.contains("empty has no certificate"), "{error}");
}

#[test]
fn a_pair_is_replaced_by_one_that_can_be_used_and_by_no_other() {
    let authority = Authority::new();
    let tls = Tls::load(authority.server()).unwrap();
    for (file, years) in [("next", VALID), ("old", EXPIRED), ("early", NOT_YET)] {
        authority.sign((file, &format!("{file}.example.com")), years);
    }
    assert!(!tls.reload(NOW, false).unwrap(), "nothing has changed");
    assert!(tls.is_for("localhost") && !tls.is_for("next.example.com"));
    // Between the two files of a renewal.
    fs::copy(authority.path("next.pem"), authority.path("server.pem")).unwrap();
    let error = tls.reload(NOW, false).unwrap_err().to_string();
    assert!(error.contains("does not belong"), "{error}");
    assert!(!tls.reload(NOW, false).unwrap(), "it is reported once");
    assert!(tls.is_for("localhost"), "the old one stays");
    replace(&authority, "server", &authority.path("next"));
    assert!(tls.reload(NOW, false).unwrap());
    assert!(tls.is_for("next.example.com") && !tls.is_for("localhost"));
    for (file, says) in [("old", "expired at"), ("early", "not valid before")] {
        replace(&authority, "server", &authority.path(file));
        let error = tls.reload(NOW, false).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
        assert!(tls.is_for("next.example.com"), "the old one stays");
    }
    replace(&authority, "server", &authority.path("early"));
    assert!(!tls.reload(NOW, false).unwrap(), "it is reported once");
    tls.reload(NOW, true).unwrap_err();
    // It is taken when its time has come.
    assert!(tls.reload(Time(4_102_000_000_000), false).unwrap());
    fs::remove_file(authority.path("server.key")).unwrap();
    tls.reload(NOW, false).unwrap_err();
    assert!(!tls.reload(NOW, false).unwrap());
}

#[test]
fn a_certificate_knows_how_long_it_is_valid() {
    let authority = Authority::new();
    let files = authority.server();
    for (years, days, says) in [
        (VALID, 27_028.0, None),
        (EXPIRED, -9_131.0, Some("expired")),
        (NOT_YET, 27_028.0, Some("not valid before")),
    ] {
        authority.sign(("server", "localhost"), years);
        // It is used, so that a host whose certificate has expired still runs its jobs.
        let tls = Tls::load(files.clone()).unwrap();
        let left = tls.days_left(NOW);
        assert!((left - days).abs() < 1e-6, "{left}");
        let checked = tls.check(NOW).map_err(|error| error.to_string());
        match says {
            None => checked.unwrap(),
            Some(says) => assert!(checked.unwrap_err().contains(says)),
        }
    }
}

#[test]
fn names_are_matched_as_tls_matches_them() {
    let authority = Authority::new();
    let files = authority.server();
    for (certified, name, is) in [
        ("jobs.example.com", "jobs.example.com", true),
        ("jobs.example.com", "JOBS.example.com", true),
        ("JOBS.example.com", "jobs.example.com", true),
        ("jobs.example.com", "a.jobs.example.com", false),
        ("*.example.com", "jobs.example.com", true),
        ("*.example.com", "a.jobs.example.com", false),
        ("*.example.com", "example.com", false),
    ] {
        authority.sign(("server", certified), VALID);
        let tls = Tls::load(files.clone()).unwrap();
        assert_eq!(tls.is_for(name), is, "{name} by {certified}");
    }
}

#[test]
fn a_pattern_of_clients_cannot_mean_more_than_it_says() {
    for text in [
        "",
        "!a",
        "{a,b}",
        "a?",
        "[a]",
        "a b",
        "a\\*",
        &"a".repeat(254),
    ] {
        text.parse::<Pattern>().unwrap_err();
    }
    for text in [
        "a.example.com",
        "*.ci.example.com",
        "spiffe://example.com/**",
        "a@example.com",
    ] {
        text.parse::<Pattern>().unwrap();
    }
}
