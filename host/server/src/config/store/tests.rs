//! Which store is configured, where its password may stand, and that no refusal shows it.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use host_protocols::wire::section::Sources;

use super::*;

const FILE: &str = "postgres://u:geheim@file/jobs\n";

fn read(
    flag: Option<&str>,
    environment: &[(&str, &str)],
) -> Result<Option<(String, bool)>, String> {
    let flags = flag.map(|url| (URL.to_owned(), url.to_owned()));
    let environment = environment
        .iter()
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    let sources = Sources {
        flags: &flags.into_iter().collect(),
        environment: &environment.collect(),
        values: &BTreeMap::new(),
        tables: &BTreeMap::new(),
        read: &|path| {
            if path == Path::new("/url") {
                Ok(FILE.as_bytes().to_vec())
            } else {
                Err(io::Error::from(io::ErrorKind::NotFound))
            }
        },
    };
    let found = database(&Section::new(&SETTINGS, sources));
    let found = found.map_err(|error| format!("{error} {error:?}"))?;
    Ok(found.map(|it| (it.target.to_string(), it.allow_unsafe)))
}

#[test]
fn the_address_comes_from_one_place() {
    let file = ("HOST_STORE_URL_FILE", "/url");
    let variable = ("HOST_STORE_URL", "postgres://u:geheim@env/jobs");
    let allowed = ("HOST_STORE_ALLOW_UNSAFE", "true");
    let is = |host: &str, allow| Some((format!("postgres://{host}:5432/jobs"), allow));
    let flag = Some("postgres://u@flag/jobs");
    for (flag, environment, expected) in [
        (None, &[][..], None),
        (flag, &[variable][..], is("flag", false)),
        (None, &[variable, allowed][..], is("env", true)),
        (None, &[file][..], is("file", false)),
    ] {
        assert_eq!(read(flag, environment).unwrap(), expected, "{flag:?}");
    }
}

#[test]
fn a_refusal_says_what_to_do_and_shows_no_password() {
    let variable = ("HOST_STORE_URL", "postgres://u:geheim@env/jobs");
    let file = ("HOST_STORE_URL_FILE", "/url");
    for (flag, environment, message) in [
        (
            Some("postgres://u:geheim@h/jobs"),
            &[][..],
            "store.url_file",
        ),
        (
            Some("postgres://h/jobs?password=geheim"),
            &[][..],
            "PGPASSFILE",
        ),
        (Some("geheim"), &[][..], "write postgres://"),
        (None, &[variable, file][..], "exclude each other"),
        (
            None,
            &[variable, ("HOST_STORE_ALLOW_UNSAFE", "yes")][..],
            "true or false",
        ),
        (None, &[("HOST_STORE_URL_FILE", "/none")][..], "/none"),
    ] {
        let refusal = read(flag, environment).unwrap_err();
        assert!(refusal.contains(message), "{refusal}");
        assert!(!refusal.contains("geheim"), "{refusal}");
    }
}
