//! Addresses of databases, how they are shown, and where passwords come from.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::*;

fn parse(url: &str) -> Result<Target, TargetError> {
    Target::parse(url, None)
}

#[test]
fn an_address_is_shown_without_user_and_password() {
    for (url, shown) in [
        ("postgres://u:geheim@db/jobs", "postgres://db:5432/jobs"),
        (
            "postgresql://u:geheim@a:1,b:2/jobs?target_session_attrs=read-write",
            "postgres://a:1,b:2/jobs",
        ),
        (
            "postgres://u@%2Frun%2Fpg/jobs",
            "postgres://%2Frun%2Fpg:5432/jobs",
        ),
        (
            "postgres://db/jobs?user=u&password=geheim",
            "postgres://db:5432/jobs",
        ),
    ] {
        let target = parse(url).unwrap();
        assert_eq!(target.to_string(), shown);
        assert!(!format!("{target:?}").contains("geheim"), "{url}");
    }
}

#[test]
fn a_refusal_quotes_nothing() {
    for url in [
        "mysql://u:geheim@db/jobs",
        "postgres://u:geheim@db:geheim/jobs",
        "postgres://u:geheim@db/jobs?sslmode=geheim",
        "postgres://u:geheim@db/jobs?geheim=1",
        "postgres:///?password=geheim",
    ] {
        let error = parse(url).map(drop).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("geheim"), "{error}");
    }
}

#[test]
fn modes_of_tls_are_those_of_libpq() {
    for (mode, security) in [
        ("disable", Security::Disable),
        ("allow", Security::Allow),
        ("prefer", Security::Prefer),
        ("require", Security::Require),
        ("verify-ca", Security::VerifyCa),
        ("verify-full", Security::VerifyFull),
    ] {
        let target = parse(&format!(
            "postgres://db/jobs?sslmode={mode}&sslrootcert=%2Fca.pem"
        ))
        .unwrap();
        assert_eq!(target.security, security);
        assert_eq!(target.authorities, Some("/ca.pem".into()));
    }
    assert_eq!(
        parse("postgres://db/jobs").unwrap().security,
        Security::Prefer
    );
}

#[test]
fn a_password_comes_from_the_first_line_that_fits() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("pgpass");
    let lines = "# passwords\nother:*:*:*:no\ndb:5432:jobs:u:with\\:colon\n*:*:*:*:any\n";
    fs::write(&path, lines).unwrap();
    let password = |url: &str| {
        let target = Target::parse(url, Some(&path))?;
        let password = target.config.get_password().map(<[u8]>::to_vec);
        Ok::<_, TargetError>(password.map(|it| String::from_utf8(it).unwrap()))
    };
    let mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    mode(0o600);
    for (url, expected) in [
        ("postgres://u@db/jobs", "with:colon"),
        ("postgres://u@db:1/jobs", "any"),
        ("postgres://u:given@db/jobs", "given"),
    ] {
        assert_eq!(password(url).unwrap().as_deref(), Some(expected));
    }
    mode(0o644);
    let error = password("postgres://u@db/jobs").unwrap_err().to_string();
    assert!(error.contains("chmod 600"), "{error}");
    fs::remove_file(&path).unwrap();
    assert_eq!(password("postgres://u@db/jobs").unwrap(), None);
}

#[test]
fn a_file_of_passwords_without_an_end_is_refused() {
    assert_eq!(
        passfile::bounded(std::io::repeat(b'x')),
        Err("larger than 1 MiB")
    );
    assert_eq!(passfile::bounded(&b"text"[..]).as_deref(), Ok("text"));
}
