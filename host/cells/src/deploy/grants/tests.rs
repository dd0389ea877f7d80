//! Missing grants, and new grants by comparing two manifests.

use host_core::handler::HandlerInfo;
use host_core::time::Time;
use host_engine::component::Digest;

use super::*;
use crate::deploy::examine;
use crate::deploy::manifest::parse;

/// Returns handlers without descriptions and schemas.
pub(crate) fn handlers(names: &[&str]) -> Vec<HandlerInfo> {
    let info = |name: &&str| HandlerInfo {
        name: name.parse().unwrap(),
        description: None,
        params_schema: None,
        result_schema: None,
    };
    names.iter().map(info).collect()
}

/// The manifest and the handlers of the current revision.
type Before<'a> = (&'a str, &'a [&'a str]);

#[test]
fn what_changes_for_a_handler_is_shown() {
    let env = "[defaults]\nenv = [\"A\"]";
    let http = "[[handlers.x.http]]\nto = \"https://a.com\"\nmethods = [\"GET\"]\nheaders = { x = \"{secret:key}\" }";
    let other = &http.replace("{ x =", "{ y =");
    let limited = "[[handlers.x.http]]\nto = \"https://a.com\"\nmax_requests = 2\nmax_response_kib = 3\nmax_total_mib = 4\ntimeout_seconds = 0.5";
    let longer = &limited.replace("0.5", "60");
    let state = "[handlers.x]\nstate = { quota_kib = 8 }";
    let shared = "[handlers.x]\nstate = { quota_kib = 8, shared = [\"a\", \"b\"] }";
    let dir = "[handlers.x]\nread_dirs = [{ host = \"/h\", guest = \"/g\" }]";
    #[rustfmt::skip]
    let table: &[(Option<Before<'_>>, &str, &[&str], &[&str], &[&str])] = &[
        // before: manifest, handlers    after     handlers      added                      removed
        (None,                           "",       &["x"],       &[],                       &[]),
        (None,                           env,      &["x", "y"],  &["x: env A", "y: env A"], &[]),
        (Some((env, &["x"])),            env,      &["x"],       &[],                       &[]),
        (Some((env, &["x"])),            env,      &["x", "y"],  &["y: env A"],             &[]),
        (Some((env, &["x"])),            "",       &["x"],       &[],                       &["x: env A"]),
        (Some((env, &["x"])),            dir,      &["x", "y"],  &["x: read /h as /g"],     &["x: env A"]),
        (Some((dir, &["x"])),            dir,      &["x"],       &[],                       &[]),
        (Some((env, &["y"])),            http,     &["x"],       &["x: http https://a.com GET any path, with the header x: {secret:key}"], &[]),
        (Some((http, &["x"])),           other,    &["x"],       &["x: http https://a.com GET any path, with the header y: {secret:key}"],
                                                                                            &["x: http https://a.com GET any path, with the header x: {secret:key}"]),
        (Some((limited, &["x"])),        longer,   &["x"],       &["x: http https://a.com any method any path, 2 requests, responses of 3 KiB, 4 MiB in all, within 60 s"],
                                                                                            &["x: http https://a.com any method any path, 2 requests, responses of 3 KiB, 4 MiB in all, within 0.5 s"]),
        (Some((state, &["x"])),          shared,   &["x"],       &["x: keep state, 8 KiB, and share a, b"],
                                                                                            &["x: keep state, 8 KiB"]),
        (Some((env, &["gone", "x"])),    env,      &["x"],       &[],                       &[]),
    ];
    for (before, after, names, added, removed) in table {
        let current = before.map(|(manifest, names)| Revision {
            component: "c".parse().unwrap(),
            revision: 1,
            digest: Digest([0; 32]),
            manifest: parse(manifest).unwrap(),
            handlers: handlers(names),
            deployed_at: Time(0),
            signature: None,
            schedules: Vec::new(),
            release: host_engine::component::Release::default(),
        });
        let changes = changes(
            current.as_ref(),
            &parse(after).unwrap(),
            &examine::names(&handlers(names)),
        );
        assert_eq!(changes.added, *added, "{before:?} to {after}");
        assert_eq!(changes.removed, *removed, "{before:?} to {after}");
    }
}

/// Before a component is compiled for the first time, only its manifest names handlers.
#[test]
fn what_all_handlers_get_is_known_before_they_are() {
    let manifest = parse("[defaults]\nenv = [\"A\"]\n[handlers.x]\nenv = [\"B\"]").unwrap();
    let names = known_handlers(None, &manifest);
    let added = changes(None, &manifest, &names).added;
    assert_eq!(added.len(), 2, "{added:?}");
    assert!(added[0].starts_with("defaults: "), "{added:?}");
    assert!(added[1].starts_with("x: "), "{added:?}");
    let none = parse("[defaults]\nmemory_mib = 64").unwrap();
    let names = known_handlers(None, &none);
    assert_eq!(changes(None, &none, &names).added, [] as [String; 0]);
}

#[test]
fn what_the_host_does_not_give_is_named() {
    let folder = tempfile::TempDir::new().unwrap();
    let there = folder.path().to_str().unwrap();
    let environment = Environment::from([("HAS".to_owned(), String::new())]);
    let some = ReadRoots::new(vec![folder.path().to_owned()]);
    let flaw = |manifest: &str, roots: &ReadRoots| {
        let available = Available {
            environment: &environment,
            roots,
            reach: &Reach {
                origins: vec!["https://*.example.com".parse().unwrap()],
                ..Reach::default()
            },
        };
        let flaw = available.missing(&parse(manifest).unwrap(), &["x".parse().unwrap()]);
        flaw.map(|flaw| flaw.message)
    };
    let dir =
        |host: &str| format!("[defaults]\nread_dirs = [{{ host = \"{host}\", guest = \"/g\" }}]");
    assert_eq!(
        flaw(&format!("{}\nenv = [\"HAS\"]", dir(there)), &some),
        None
    );
    let gone = format!("{there}/gone");
    let missing_dir = flaw(&dir(&gone), &some).unwrap();
    assert!(missing_dir.contains("No such file"), "{missing_dir}");
    // The message does not reveal whether a directory exists.
    let none = ReadRoots::default();
    let refused = |host: &str| flaw(&dir(host), &none).unwrap().replace(host, "");
    assert_eq!(refused(there), refused(&gone));
    assert!(refused(there).contains("grants.read_roots"));
    let unset = flaw("[handlers.x]\nenv = [\"HAS\", \"UNSET\"]", &some).unwrap();
    assert!(
        unset.contains("x the environment variable UNSET"),
        "{unset}"
    );
    assert_eq!(flaw("[handlers.y]\nenv = [\"UNSET\"]", &some), None);
    let both = format!("{}\nenv = [\"UNSET\"]", dir(&gone));
    assert_eq!(
        flaw(&both, &some).unwrap().lines().count(),
        2,
        "all of them"
    );
    let http = |to: &str| format!("[[handlers.x.http]]\nto = \"{to}\"\n");
    assert_eq!(flaw(&http("https://a.example.com"), &some), None);
    let other = flaw(&http("https://example.com"), &some).unwrap();
    assert!(
        other.contains("https://example.com, which is not in grants.http"),
        "{other}"
    );
    let several = format!(
        "{}{}{}headers = {{ x = \"{{secret:one}}{{secret:two}}\" }}\n[handlers.x]\nenv = [\"UNSET\", \"ALSO\"]",
        http("https://one.example"),
        http("https://two.example"),
        http("https://a.example.com")
    );
    let all = flaw(&several, &some).unwrap();
    for name in [
        "//one.",
        "//two.",
        "secret one",
        "secret two",
        "UNSET",
        "ALSO",
    ] {
        assert_eq!(all.matches(name).count(), 1, "{name}: {all}");
    }
    assert_eq!(all.lines().count(), 6, "{all}");
    let secret = format!(
        "{}headers = {{ x = \"{{secret:key}}\" }}",
        http("https://a.example.com")
    );
    let unknown = flaw(&secret, &some).unwrap();
    assert!(
        unknown.contains("the secret key, which has no section"),
        "{unknown}"
    );
}
