//! A manifest with and without options above it.

use super::*;

fn read(text: &str) -> Manifest {
    Manifest {
        source: Some(Source {
            path: "m.toml".into(),
            text: text.to_owned(),
        }),
        table: text.parse().unwrap(),
        changed: false,
    }
}

#[test]
fn a_file_goes_as_it_stands_unless_options_say_otherwise() {
    let text = "# why\n[defaults]\nmemory_mib = 1\nfuture = 1979-05-27\n";
    let mut manifest = read(text);
    assert!(
        manifest
            .set_defaults(&Overrides::default())
            .unwrap()
            .is_empty()
    );
    manifest.set_name(None);
    assert_eq!(manifest.text("x").unwrap().as_deref(), Some(text));

    let mut manifest = read(text);
    let overrides = Overrides {
        memory_mib: Some(2),
        timeout: Some(Seconds { ms: 1500 }),
        ..Overrides::default()
    };
    manifest.set_defaults(&overrides).unwrap();
    let sent = manifest.text("x").unwrap().unwrap();
    assert_eq!(
        sent,
        "[defaults]\nfuture = 1979-05-27\nmemory_mib = 2\ntimeout_seconds = 1.5\n"
    );
}

#[test]
fn no_file_and_no_option_is_no_manifest() {
    let mut manifest = Manifest::default();
    manifest.set_name(Some(&"a".parse().unwrap()));
    assert_eq!(manifest.text("x").unwrap(), None);
}

#[test]
fn what_is_sent_is_what_the_host_reads() {
    let overrides = Overrides {
        memory_mib: Some(7),
        timeout: Some(Seconds { ms: 250 }),
        fuel: Some(9),
        env: vec!["TZ".to_owned()],
        read_dirs: vec![parse_dir("/a:b:/c \"d\"").unwrap()],
    };
    let mut manifest = read("name = \"x\"\n[handlers.\"a/b\"]\nfuel = 3\n");
    manifest.set_name(Some(&"y".parse().unwrap()));
    let unreached = manifest.set_defaults(&overrides).unwrap();
    assert_eq!(
        unreached,
        ["--fuel does not apply to a/b: the manifest sets fuel for it"]
    );
    let text = manifest.text("x").unwrap().unwrap();
    let host: host_engine::component::Manifest = toml::from_str(&text).unwrap();
    let name = "other".parse().unwrap();
    let (limits, grants) = (host.limits(&name), host.grants(&name));
    assert_eq!(host.name, Some("y".parse().unwrap()));
    assert_eq!(limits.memory_bytes, 7 << 20);
    assert_eq!(limits.timeout_ms, 250);
    assert_eq!(limits.fuel, Some(9));
    assert_eq!(grants.env, ["TZ"]);
    assert_eq!(
        grants.read_dirs,
        [DirGrant {
            host: "/a:b".to_owned(),
            guest: "/c \"d\"".to_owned()
        }]
    );
    assert_eq!(host.limits(&"a/b".parse().unwrap()).fuel, Some(3));
}

#[test]
fn directories_are_a_pair_and_absolute() {
    assert!(parse_dir("relative:/g").unwrap().host.starts_with('/'));
    for wrong in ["", "/a", ":/g", "/a:", "/a:g"] {
        assert!(parse_dir(wrong).is_err(), "{wrong}");
    }
}
