//! Only signed tokens are accepted.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use host_testing::histories;
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
fn a_signed_token_is_accepted_until_it_expires() {
    let (token, end) = tokens().sign(NOW, &scope(), 3_600);
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
    let (_, end) = tokens().sign(NOW, &scope(), 1_000_000);
    assert_eq!(end, NOW.plus_ms(TTL_SECONDS_MAX * 1_000));
    assert_eq!(
        made(KEY, HEADER, &claims().to_string()).split('.').count(),
        3
    );
    let foreign = made(KEY, HEADER, &claims().to_string());
    assert_eq!(tokens().check(NOW, &foreign), Some(scope()));
}

#[test]
fn two_keys_are_valid_during_a_rotation() {
    let new = b"another key of at least 32 bytes";
    let (old_token, _) = tokens().sign(NOW, &scope(), 60);
    let both = Tokens::new(&Keys::new(new, Some(KEY)).unwrap());
    let (new_token, _) = both.sign(NOW, &scope(), 60);
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
fn claims_must_be_complete_and_of_their_type() {
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

#[test]
fn a_token_has_three_parts() {
    let payload = claims().to_string();
    let valid = made(KEY, HEADER, &payload);
    assert_eq!(tokens().check(NOW, &valid), Some(scope()));
    let [header, claims, signature] = valid.split('.').collect::<Vec<_>>()[..] else {
        panic!("{valid}");
    };
    let mac = URL_SAFE_NO_PAD.decode(signature).unwrap();
    let with_mac = |mac: &[u8]| format!("{header}.{claims}.{}", URL_SAFE_NO_PAD.encode(mac));
    for token in [
        String::new(),
        "..".to_owned(),
        format!("{header}.{claims}"),
        format!("{header}.{claims}."),
        format!(".{claims}.{signature}"),
        format!("{header}..{signature}"),
        format!("{valid}."),
        format!(".{valid}"),
        format!("{valid}.{signature}"),
        format!("{header}.{claims}.{claims}.{signature}"),
        format!("{header}=.{claims}.{signature}"),
        format!("{valid}="),
        format!(" {valid}"),
        format!("{valid}\n"),
        with_mac(&mac[..31]),
        with_mac(&mac[..16]),
        with_mac(&[&mac[..], &[0]].concat()),
        with_mac(&[0; 32]),
    ] {
        assert_eq!(tokens().check(NOW, &token), None, "{token}");
    }
    for header in [
        r#"{"alg":"HS256","crit":["exp"]}"#,
        r#"{"alg":"HS256","crit":[]}"#,
        r#"{"alg":"HS256","alg":"none"}"#,
        r#"{"alg":"none","alg":"HS256"}"#,
        r#"{"alg":"HS256"}{}"#,
        r#"["HS256",null]"#,
    ] {
        let token = made(KEY, header, &payload);
        assert_eq!(tokens().check(NOW, &token), None, "{header}");
    }
    let list = r#"["00000000-0000-0000-0000-000000000007","t","w","r",1,1800003600,1800000000,1800000000]"#;
    for payload in [
        list.to_owned(),
        format!("{payload}{payload}"),
        String::new(),
    ] {
        let token = made(KEY, HEADER, &payload);
        assert_eq!(tokens().check(NOW, &token), None, "{payload}");
    }
}

/// How many random and mutated tokens one seed makes.
const OF_ONE_SEED: u32 = 20_000;

/// A token that must not be accepted for [`scope`].
enum Bad {
    /// It is not valid.
    Forged(String),
    /// It is for something else.
    Other(String),
}

#[test]
fn no_random_or_mutated_token_is_taken() {
    let tokens = tokens();
    let (valid, _) = tokens.sign(NOW, &scope(), 3_600);
    let valid = valid.expose().to_owned();
    assert_eq!(
        tokens.check(NOW, &made(KEY, HEADER, &payload("", 0, 0))),
        Some(scope())
    );
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: histories(2, 50),
        ..ProptestConfig::default()
    });
    let seeds = (any::<[u8; 32]>(), any::<u64>());
    let tried = runner.run(&seeds, |(other, seed)| {
        let mut random = Random(seed | 1);
        for _ in 0..OF_ONE_SEED {
            match bad(&valid, &other, &mut random) {
                // A mutation may happen to change nothing.
                Bad::Forged(token) if token == valid => {}
                Bad::Forged(token) => {
                    prop_assert_eq!(tokens.check(NOW, &token), None, "{}", token);
                }
                Bad::Other(token) => {
                    let read = tokens.check(NOW, &token);
                    prop_assert!(read.is_some_and(|read| read != scope()), "{}", token);
                }
            }
        }
        Ok(())
    });
    tried.unwrap();
}

/// Numbers that a seed decides.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(end).unwrap()).unwrap()
    }

    fn letter(&mut self) -> char {
        const LETTERS: &[u8] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=+/ \0";
        char::from(LETTERS[self.below(LETTERS.len())])
    }
}

/// Writes the claims of [`scope`], with `more` after its run and other ends of its validity.
fn payload(more: &str, nbf_later: i64, exp_earlier: i64) -> String {
    format!(
        r#"{{"task":"00000000-0000-0000-0000-000000000007","tenant":"t","workspace":"w","run":"r{more}","attempt":1,"iat":1800000000,"nbf":{},"exp":{}}}"#,
        1_800_000_000 + nbf_later,
        1_800_003_600 - exp_earlier,
    )
}

/// Changes a token in one of many ways, or makes another one.
fn bad(valid: &str, other: &[u8], random: &mut Random) -> Bad {
    let at = random.below(valid.len());
    let (before, after) = valid.split_at(at);
    Bad::Forged(match random.below(11) {
        0 => before.to_owned(),
        1 => {
            let mut bytes = valid.as_bytes().to_vec();
            bytes[at] ^= 1 << random.below(7);
            String::from_utf8_lossy(&bytes).into_owned()
        }
        2 => format!("{before}{}{}", random.letter(), &after[1..]),
        3 => format!("{before}{}{after}", random.letter()),
        4 => format!("{valid}{}", random.letter()),
        5 => (0..random.below(300)).map(|_| random.letter()).collect(),
        // Another key.
        6 => made(other, HEADER, &payload("", 0, 0)),
        7 => {
            let header = ["none", "HS384", "HS512", "RS256"][random.below(4)];
            let header = format!(r#"{{"alg":"{header}"}}"#);
            let key = if random.below(2) == 0 { KEY } else { other };
            made(key, &header, &payload("", 0, 0))
        }
        // Not yet valid, or expired.
        8 => made(KEY, HEADER, &payload("", away(random), 0)),
        9 => made(KEY, HEADER, &payload("", 0, 3_600 + away(random))),
        _ => {
            let token = if random.below(2) == 0 {
                made(KEY, HEADER, &payload(&at.to_string(), 0, 0))
            } else {
                let of_attempt = |n: usize| format!(r#""attempt":{n},"#);
                let payload = payload("", 0, 0);
                made(
                    KEY,
                    HEADER,
                    &payload.replace(&of_attempt(1), &of_attempt(2 + at)),
                )
            };
            return Bad::Other(token);
        }
    })
}

/// More seconds than clocks may differ.
fn away(random: &mut Random) -> i64 {
    i64::try_from(31 + random.below(100_000)).unwrap()
}

#[test]
fn a_key_is_made_once_and_is_private() {
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
