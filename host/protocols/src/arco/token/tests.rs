//! Tokens: what is signed is taken, and nothing else.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proptest::prelude::*;
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;

const KEY: &[u8] = b"0123456789abcdef0123456789abcdef";
const NOW: Time = Time(1_800_000_000_000);

fn tokens() -> Tokens {
    Tokens::new(&Keys::new(KEY, None).unwrap())
}

fn scope() -> Scope {
    Scope {
        job: JobId(Uuid::from_u128(7)),
        tenant: "t".to_owned(),
        workspace: "w".to_owned(),
        run: "r".to_owned(),
        attempt: 1,
    }
}

fn claims() -> Value {
    json!({
        "task": Uuid::from_u128(7).to_string(),
        "tenant": "t",
        "workspace": "w",
        "run": "r",
        "attempt": 1,
        "iat": 1_800_000_000,
        "nbf": 1_800_000_000,
        "exp": 1_800_003_600,
    })
}

/// Signs any header and payload.
fn made(key: &[u8], header: &str, payload: &str) -> String {
    let signed = format!(
        "{}.{}",
        URL_SAFE_NO_PAD.encode(header),
        URL_SAFE_NO_PAD.encode(payload)
    );
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key);
    let signature = ring::hmac::sign(&key, signed.as_bytes());
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

const HEADER: &str = r#"{"alg":"HS256","typ":"JWT"}"#;

#[test]
fn what_is_signed_is_taken_until_its_end() {
    let (token, end) = tokens().sign(NOW, &scope(), 3_600).unwrap();
    assert_eq!(end, NOW.plus_ms(3_600_000));
    assert_eq!(format!("{token:?}"), "Secret");
    let check = |ms: i64| tokens().check(Time(NOW.0 + ms), token.expose());
    let leeway = LEEWAY_SECONDS * 1_000;
    for ms in [0, 1, 3_599_000, -leeway, 3_600_000 + leeway - 1] {
        assert_eq!(check(ms), Some(scope()), "{ms}");
    }
    for ms in [
        -leeway - 1_000,
        3_600_000 + leeway,
        36_000_000,
        i64::MIN / 2,
        i64::MAX / 2,
    ] {
        assert_eq!(check(ms), None, "{ms}");
    }
    let (_, end) = tokens().sign(NOW, &scope(), 1_000_000).unwrap();
    assert_eq!(end, NOW.plus_ms(TTL_SECONDS_MAX * 1_000));
    assert_eq!(
        made(KEY, HEADER, &claims().to_string()).split('.').count(),
        3
    );
    let foreign = made(KEY, HEADER, &claims().to_string());
    assert_eq!(tokens().check(NOW, &foreign), Some(scope()));
}

#[test]
fn two_keys_hold_at_once_while_one_follows_the_other() {
    let new = b"another key of at least 32 bytes";
    let (old_token, _) = tokens().sign(NOW, &scope(), 60).unwrap();
    let both = Tokens::new(&Keys::new(new, Some(KEY)).unwrap());
    let (new_token, _) = both.sign(NOW, &scope(), 60).unwrap();
    let after = Tokens::new(&Keys::new(new, None).unwrap());
    let taken = |tokens: &Tokens, token: &Secret| tokens.check(NOW, token.expose()).is_some();
    assert!(taken(&both, &old_token) && taken(&both, &new_token));
    assert!(!taken(&tokens(), &new_token));
    assert!(taken(&after, &new_token) && !taken(&after, &old_token));
}

#[test]
fn a_header_chooses_nothing() {
    let payload = claims().to_string();
    for header in [
        r#"{"alg":"none"}"#,
        r#"{"alg":"None","typ":"JWT"}"#,
        r#"{"alg":"nOnE"}"#,
        r#"{"alg":"HS384"}"#,
        r#"{"alg":"HS512"}"#,
        r#"{"alg":"RS256"}"#,
        r#"{"alg":"ES256"}"#,
        r#"{"alg":"EdDSA"}"#,
        r#"{"alg":"hs256"}"#,
        r#"{"typ":"JWT"}"#,
        r#"{"alg":["HS256"]}"#,
        "{}",
        "HS256",
        "",
    ] {
        assert_eq!(
            tokens().check(NOW, &made(KEY, header, &payload)),
            None,
            "{header}"
        );
        let unsigned = format!(
            "{}.{}.",
            URL_SAFE_NO_PAD.encode(header),
            URL_SAFE_NO_PAD.encode(&payload)
        );
        assert_eq!(tokens().check(NOW, &unsigned), None, "{header}");
    }
    let other = b"a key of the one who forges this";
    let jwk = format!(
        r#"{{"alg":"HS256","jwk":{{"kty":"oct","k":"{}"}},"kid":"../../key","jku":"http://evil"}}"#,
        URL_SAFE_NO_PAD.encode(other)
    );
    assert_eq!(tokens().check(NOW, &made(other, &jwk, &payload)), None);
}

#[test]
fn claims_are_whole_and_of_their_type() {
    let changed = |name: &str, value: Value| {
        let mut claims = claims();
        claims[name] = value;
        tokens().check(NOW, &made(KEY, HEADER, &claims.to_string()))
    };
    assert_eq!(changed("more", json!(1)), Some(scope()));
    for name in [
        "task",
        "tenant",
        "workspace",
        "run",
        "attempt",
        "exp",
        "nbf",
        "iat",
    ] {
        let mut claims = claims();
        claims.as_object_mut().unwrap().remove(name);
        let token = made(KEY, HEADER, &claims.to_string());
        assert_eq!(tokens().check(NOW, &token), None, "without {name}");
        for value in [json!(null), json!([]), json!({}), json!(true)] {
            assert_eq!(changed(name, value.clone()), None, "{name}: {value}");
        }
    }
    for value in [
        json!("1800003600"),
        json!(1.8e9),
        json!(-1),
        json!(1_800_007_201_i64),
        json!(1_799_999_900_i64),
    ] {
        assert_eq!(changed("exp", value.clone()), None, "exp: {value}");
    }
    for value in [json!(1_800_000_060_i64), json!("1"), json!(1_800_000_000.5)] {
        assert_eq!(changed("nbf", value.clone()), None, "nbf: {value}");
        assert_eq!(changed("iat", value.clone()), None, "iat: {value}");
    }
    assert_eq!(changed("attempt", json!(-1)), None);
    assert_eq!(changed("task", json!("../7")), None);
    let twice = claims()
        .to_string()
        .replacen('{', r#"{"exp":9999999999,"#, 1);
    assert_eq!(tokens().check(NOW, &made(KEY, HEADER, &twice)), None);
    let huge = claims().to_string().replace("1800003600", "1e400");
    assert_eq!(tokens().check(NOW, &made(KEY, HEADER, &huge)), None);
    assert_eq!(tokens().check(NOW, &"a".repeat(TOKEN_BYTES_MAX + 1)), None);
}

/// Tries a token that must not be taken.
fn refused(tokens: &Tokens, valid: &str, token: &str) -> Result<(), TestCaseError> {
    // A mutation may happen to change nothing.
    if token != valid {
        prop_assert_eq!(tokens.check(NOW, token), None, "{}", token);
    }
    Ok(())
}

/// How many mutated tokens one run of this test tries in all.
const MUTATIONS: usize = 100_000;

/// How many mutations one case tries: reading the keys again for each would be most of the work.
const OF_ONE_CASE: usize = 2_000;

#[test]
fn no_mutated_token_is_taken() {
    let tokens = tokens();
    let (valid, _) = tokens.sign(NOW, &scope(), 3_600).unwrap();
    let valid = valid.expose().to_owned();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: u32::try_from(MUTATIONS / OF_ONE_CASE).unwrap(),
        ..ProptestConfig::default()
    });
    let seeds = (any::<[u8; 32]>(), any::<u64>());
    let tried = runner.run(&seeds, |(other, seed)| {
        let mut bits = seed | 1;
        let mut random = move |below: usize| {
            bits ^= bits << 13;
            bits ^= bits >> 7;
            bits ^= bits << 17;
            usize::try_from(bits % u64::try_from(below).unwrap()).unwrap()
        };
        for _ in 0..OF_ONE_CASE {
            let token = mutated(&valid, &other, &mut random);
            refused(&tokens, &valid, &token)?;
        }
        Ok(())
    });
    tried.unwrap();
}

/// Changes a token in one of many ways, or makes another one.
fn mutated(valid: &str, other: &[u8], random: &mut impl FnMut(usize) -> usize) -> String {
    const LETTERS: &[u8] =
        b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=+/ \0";
    let letter = |at: usize| char::from(LETTERS[at]);
    let at = random(valid.len());
    match random(9) {
        0 => valid[..at].to_owned(),
        1 => {
            let mut bytes = valid.as_bytes().to_vec();
            bytes[at] ^= 1 << random(7);
            String::from_utf8_lossy(&bytes).into_owned()
        }
        2 => format!(
            "{}{}{}",
            &valid[..at],
            letter(random(LETTERS.len())),
            &valid[at + 1..]
        ),
        3 => format!(
            "{}{}{}",
            &valid[..at],
            letter(random(LETTERS.len())),
            &valid[at..]
        ),
        4 => format!("{valid}{}", letter(random(LETTERS.len()))),
        5 => (0..random(300))
            .map(|_| letter(random(LETTERS.len())))
            .collect(),
        6 => {
            let mut payload = claims();
            payload["attempt"] = json!(random(1_000));
            made(other, HEADER, &payload.to_string())
        }
        7 => {
            let mut payload = claims();
            payload["task"] = json!(Uuid::from_u128(random(1_000) as u128).to_string());
            let header = ["none", "HS384", "RS256"][random(3)];
            made(
                KEY,
                &format!(r#"{{"alg":"{header}"}}"#),
                &payload.to_string(),
            )
        }
        _ => {
            let mut payload = claims();
            let away = i64::try_from(31 + random(100_000)).unwrap();
            if random(2) == 0 {
                payload["exp"] = json!(1_800_000_000 - away);
            } else {
                payload["nbf"] = json!(1_800_000_000 + away);
            }
            made(KEY, HEADER, &payload.to_string())
        }
    }
}

#[test]
fn a_key_is_made_once_and_is_ours_alone() {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("arco.key");
    let kept = Keys::kept_in(&path).unwrap();
    assert_eq!(Keys::kept_in(&path).unwrap(), kept);
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(std::fs::read(&path).unwrap().len(), 43);
    assert_ne!(Keys::kept_in(&folder.path().join("other")).unwrap(), kept);
    std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    let error = Keys::kept_in(&path).unwrap_err().to_string();
    assert!(error.contains("0600"), "{error}");
    let short = folder.path().join("short");
    std::fs::write(&short, "x").unwrap();
    std::fs::set_permissions(&short, Permissions::from_mode(0o600)).unwrap();
    assert!(
        Keys::kept_in(&short)
            .unwrap_err()
            .to_string()
            .contains("32 bytes")
    );
    assert_eq!(format!("{kept:?}"), "one key");
}

#[test]
fn a_newline_at_the_end_is_not_part_of_a_key() {
    let with = [KEY, b"\n"].concat();
    assert_eq!(Keys::new(&with, None), Keys::new(KEY, None));
    assert_eq!(Keys::new(&KEY[1..], None), None);
    assert_eq!(Keys::new(KEY, Some(&KEY[1..])), None);
}
