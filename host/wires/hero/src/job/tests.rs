//! Valid and invalid hashes: each error names its code and its field, and quotes no value.

use proptest::prelude::*;

use super::*;

const ID: &str = "3f2b8a1c-0000-4000-8000-000000000001";
const OTHER: &str = "3f2b8a1c-0000-4000-8000-000000000002";

fn terms() -> Terms {
    Terms {
        worker: "w1".to_owned(),
        log_root: Some("/var/log/hero".to_owned()),
    }
}

fn values(fields: &[(&str, &[u8])]) -> Vec<Value> {
    let value = |name: &str, bytes_max: usize| {
        let (_, value) = fields.iter().find(|(field, _)| *field == name)?;
        Some(if value.len() > bytes_max {
            Value::Int(i64::try_from(value.len()).unwrap())
        } else {
            Value::Data(value.to_vec())
        })
    };
    FIELDS
        .iter()
        .map(|(name, bytes_max)| value(name, *bytes_max).unwrap_or(Value::Nil))
        .collect()
}

fn job(fields: &[(&str, &str)]) -> Result<HeroJob, Refusal> {
    let mut all: Vec<(&str, &[u8])> = vec![("script", b"40 + 2")];
    for (name, value) in fields {
        all.retain(|(other, _)| other != name);
        all.push((name, value.as_bytes()));
    }
    read(ID, &values(&all), &terms())
}

#[test]
fn a_job_as_documented_is_read() {
    let dependencies = format!("[\"{OTHER}\"]");
    let read = job(&[
        ("id", ID),
        ("caller_id", "alice"),
        ("worker_id", "w1"),
        ("context_id", "project-7"),
        ("timeout", "1.5"),
        ("retries", "3"),
        ("concurrent", "false"),
        ("log_path", "/var/log/hero/a/b.log"),
        ("created_at", "2026-01-01T00:00:00Z"),
        ("updated_at", "any"),
        ("status", "dispatched"),
        ("env_vars", r#"{"REGION":"eu"}"#),
        ("prerequisites", "[]"),
        ("dependents", "nonsense is not read"),
        ("dependencies", &dependencies),
    ])
    .unwrap();
    assert_eq!(
        (read.timeout_ms, read.retries, read.concurrent),
        (1_500, 3, false)
    );
    assert_eq!(read.log_path.as_deref(), Some("a/b.log"));
    assert_eq!(read.depends_on, [OTHER.to_owned()].into());
    assert_eq!(read.env["REGION"], "eu");
    assert_eq!(read.created_at, Time::parse_rfc3339("2026-01-01T00:00:00Z"));
    let (handler, params) = read.call().unwrap();
    assert_eq!(handler.as_str(), "hero.rhai");
    let params: serde_json::Value = serde_json::from_str(&params).unwrap();
    let expected = serde_json::json!({
        "script": "40 + 2", "caller_id": "alice", "context_id": "project-7", "env": {"REGION": "eu"},
    });
    assert_eq!(params, expected);
    let kept: serde_json::Value = serde_json::from_str(&read.kept_params().unwrap()).unwrap();
    assert_eq!(kept["env"], serde_json::json!({"REGION": "(not kept)"}));
    assert_eq!(kept["script"], params["script"]);
}

#[test]
fn what_is_absent_has_a_default() {
    let read = job(&[("timeout", ""), ("env_vars", "null"), ("dependencies", " ")]).unwrap();
    assert_eq!(
        (read.timeout_ms, read.retries, read.concurrent),
        (30_000, 0, true)
    );
    assert_eq!(read.log_path, None);
    assert!(read.env.is_empty() && read.depends_on.is_empty());
    assert_eq!(read.kept_params(), None);
}

#[test]
fn the_script_says_its_language_unless_a_field_does() {
    #[rustfmt::skip]
    let table: &[(&[(&str, &str)], &str)] = &[
        (&[("script", "1 + 1")], "hero.rhai"),
        (&[("script", "// x\n!!vm.start\n")], "hero.heroscript"),
        (&[("script", "let a = 1;\n  !!b")], "hero.rhai"),
        (&[("script", "\n  // x\n  !!vm.start name:a\n    cpu:4\n")], "hero.heroscript"),
        (&[("script", "!vm.start")], "hero.heroscript"),
        (&[("script", "!!!vm.start a b")], "hero.heroscript"),
        (&[("script", "!!!!vm.start\n!a.b")], "hero.heroscript"),
        (&[("script", "!!start")], "hero.heroscript"),
        (&[("script", "words\n!!vm.start")], "hero.heroscript"),
        (&[("script", "!vm.ready && start()")], "hero.rhai"),
        (&[("script", "!ready")], "hero.rhai"),
        (&[("script", "!(1 == 2)")], "hero.rhai"),
        (&[("script", "let a = 1;\n!vm.start")], "hero.rhai"),
        (&[("script", "!!vm.start"), ("script_type", "Rhai")], "hero.rhai"),
        (&[("script", "!vm.start"), ("script_type", "heroscript")], "hero.heroscript"),
        (&[("script", r#"{"a":1}"#), ("handler", "basics/echo")], "basics/echo"),
        (&[("script", ""), ("handler", "noop")], "noop"),
    ];
    for (fields, expected) in table {
        let (handler, _) = job(fields).unwrap().call().unwrap();
        assert_eq!(handler.as_str(), *expected, "{fields:?}");
    }
    let (_, params) = job(&[("handler", "noop"), ("script", " ")])
        .unwrap()
        .call()
        .unwrap();
    assert_eq!(params, "{}");
}

#[test]
fn each_fault_has_its_code() {
    let own = format!("[\"{ID}\"]");
    let ids: Vec<String> = (100..=DEPENDENCIES_MAX + 100)
        .map(|n| format!("3f2b8a1c-0000-4000-8000-{n:012}"))
        .collect();
    let many = serde_json::to_string(&ids).unwrap();
    let huge = "9".repeat(10 << 20);
    let long = "x".repeat(SCRIPT_BYTES_MAX + 1);
    #[rustfmt::skip]
    let table: &[(&str, &str, &str)] = &[
        ("timeout", "0", "E_FIELD_RANGE"),
        ("timeout", "0.0", "E_FIELD_RANGE"),
        ("timeout", "0.0001", "E_FIELD_RANGE"),
        ("timeout", "-1", "E_FIELD_RANGE"),
        ("timeout", "1e12", "E_FIELD_RANGE"),
        ("timeout", "1000000000000", "E_FIELD_RANGE"),
        ("timeout", "604800.001", "E_FIELD_RANGE"),
        ("timeout", "abc", "E_FIELD_RANGE"),
        ("timeout", "NaN", "E_FIELD_RANGE"),
        ("timeout", "1.2.3", "E_FIELD_RANGE"),
        ("timeout", "99999999999999999999999", "E_FIELD_RANGE"),
        ("timeout", "99999999999999999999999999999999999", "E_FIELD_RANGE"),
        ("retries", "-1", "E_FIELD_RANGE"),
        ("retries", "2147483648", "E_FIELD_RANGE"),
        ("retries", "1.5", "E_FIELD_RANGE"),
        ("retries", "+1", "E_FIELD_RANGE"),
        ("concurrent", "yes", "E_FIELD_RANGE"),
        ("concurrent", "TRUE", "E_FIELD_RANGE"),
        ("prerequisites", &own, "E_DEP_CYCLE"),
        ("dependencies", &own, "E_DEP_CYCLE"),
        ("dependencies", &many, "E_FIELD_RANGE"),
        ("dependencies", &huge, "E_FIELD_RANGE"),
        ("dependencies", "[\"*\"]", "E_FIELD_RANGE"),
        ("dependencies", "[1]", "E_FIELD_TYPE"),
        ("dependencies", "{}", "E_FIELD_TYPE"),
        ("dependencies", "a,b", "E_FIELD_TYPE"),
        ("log_path", "../../etc/x", "E_LOG_PATH"),
        ("log_path", "a/../../x", "E_LOG_PATH"),
        ("log_path", "/etc/passwd", "E_LOG_PATH"),
        ("log_path", "/var/log/hero/../x", "E_LOG_PATH"),
        ("log_path", "/var/log/heroes/x", "E_LOG_PATH"),
        ("log_path", "/var/log/hero", "E_LOG_PATH"),
        ("log_path", "/dev/null", "E_LOG_PATH"),
        ("log_path", "a//b", "E_LOG_PATH"),
        ("log_path", "a\u{7}b", "E_LOG_PATH"),
        ("env_vars", "not JSON", "E_FIELD_TYPE"),
        ("env_vars", "[]", "E_FIELD_TYPE"),
        ("env_vars", r#"{"A":1}"#, "E_FIELD_TYPE"),
        ("env_vars", r#"{"A":"1","A":"2"}"#, "E_FIELD_TYPE"),
        ("env_vars", r#"{"A=B":"1"}"#, "E_FIELD_RANGE"),
        ("env_vars", "{\"A\":\"a\\u0000b\"}", "E_FIELD_RANGE"),
        ("env_vars", &huge, "E_FIELD_RANGE"),
        ("script", &long, "E_FIELD_RANGE"),
        ("script_type", "python", "E_FIELD_RANGE"),
        ("handler", "no such name", "E_FIELD_RANGE"),
        ("id", OTHER, "E_JOB_TAMPERED"),
        ("worker_id", "w2", "E_JOB_TAMPERED"),
    ];
    for (field, value, code) in table {
        let shown: String = value.chars().take(40).collect();
        let refusal = job(&[(field, value)]).expect_err(&format!("{field} {shown}"));
        assert_eq!(
            refusal.code(),
            *code,
            "{field} {shown}: {}",
            refusal.message
        );
        assert!(
            refusal.message.starts_with(field)
                || *code == "E_DEP_CYCLE"
                || *field == "prerequisites",
            "{}",
            refusal.message
        );
        assert!(refusal.message.len() < 300, "{}", refusal.message);
    }
    let params = job(&[("handler", "noop"), ("script", "{")]).unwrap_err();
    assert_eq!(params.code(), "E_FIELD_TYPE");
    let nothing = read(ID, &values(&[]), &terms()).unwrap_err();
    assert_eq!(nothing.code(), "E_FIELD_TYPE");
    let garbage = read(ID, &values(&[("script", b"\xff\xfe")]), &terms()).unwrap_err();
    assert_eq!(
        garbage.text(),
        "E_FIELD_TYPE script: expected UTF-8 text, found 2 bytes of another encoding"
    );
}

#[test]
fn no_fault_quotes_a_value() {
    for (field, value) in [
        ("timeout", "secret-7"),
        ("retries", "secret-7"),
        ("concurrent", "secret-7"),
        ("env_vars", r#"{"secret-7"#),
        ("env_vars", r#"{"secret 7":"x"}"#),
        ("dependencies", r#"["secret-7"]"#),
        ("log_path", "../secret-7"),
        ("script_type", "secret-7"),
        ("id", "secret-7"),
    ] {
        let refusal = job(&[(field, value)]).unwrap_err();
        assert!(!refusal.text().contains("secret"), "{}", refusal.text());
    }
}

#[test]
fn logs_need_a_folder() {
    let mut terms = terms();
    terms.log_root = None;
    let all = values(&[("script", b"1"), ("log_path", b"a.log")]);
    assert_eq!(read(ID, &all, &terms).unwrap_err().code(), "E_LOG_PATH");
}

#[test]
fn ids_are_uuids() {
    for (text, expected) in [
        (ID, true),
        ("3F2B8A1C-0000-4000-8000-00000000000A", true),
        ("3f2b8a1c000040008000000000000001", false),
        ("*", false),
        ("", false),
        ("3f2b8a1c-0000-4000-8000-00000000000\n", false),
        ("3f2b8a1c-0000-4000-8000-00000000000g", false),
        ("{3f2b8a1c-0000-4000-8000-0000000000}", false),
    ] {
        assert_eq!(is_id(text), expected, "{text:?}");
    }
}

proptest! {
    #[test]
    fn any_hash_is_read_or_refused(
        values in prop::collection::vec(
            prop_oneof![
                Just(Value::Nil),
                (0..1_000_000_000_i64).prop_map(Value::Int),
                prop::collection::vec(any::<u8>(), 0..40).prop_map(Value::Data),
                "[\\[\\]{}\":,0-9a-z./ -]{0,40}".prop_map(|text| Value::Data(text.into_bytes())),
            ],
            0..20,
        ),
    ) {
        if let Ok(job) = read(ID, &values, &terms()) {
            prop_assert!(job.timeout_ms > 0);
            prop_assert!(job.retries <= RETRIES_MAX);
            prop_assert!(!job.depends_on.contains(ID));
        }
    }
}
