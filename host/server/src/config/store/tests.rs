//! Which store is configured, where its password may be, and that no refusal shows it.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use host_wire_kit::section::{Document, Stated};

use tempfile::TempDir;

use super::*;

const FILE: &str = "postgres://u:geheim@file/jobs\n";

fn read(
    flag: Option<&str>,
    environment: &[(&str, &str)],
) -> Result<Option<(String, bool)>, String> {
    let flags = flag.map(|url| ("store.url".to_owned(), Stated::by_flag("store", url)));
    let environment = environment
        .iter()
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    let (flags, environment) = (flags.into_iter().collect(), environment.collect());
    let document = Document::default().with(StoreKeys::SETTINGS.iter(), &environment, &flags);
    let section = Section {
        document: &document,
        environment: &environment,
        read: &|path| fs::read(path),
    };
    let keys = document.read("store");
    let found = keys
        .and_then(|keys| database(&section, &keys))
        .map_err(|error| format!("{error} {error:?}"))?;
    Ok(found.map(|it| (it.target.to_string(), it.allow_unsafe)))
}

/// Makes a file with an address.
fn file(folder: &TempDir, mode: u32) -> String {
    let path = folder.path().join(format!("{mode:o}"));
    fs::write(&path, FILE).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Reads a configuration that names a file with the address.
fn read_file(path: &Path) -> Result<Option<(String, bool)>, String> {
    read(None, &[("HOST_STORE_URL_FILE", path.to_str().unwrap())])
}

#[test]
fn a_file_with_the_address_is_the_hosts_alone() {
    let folder = TempDir::new().unwrap();
    for mode in [0o600, 0o400] {
        assert!(read_file(file(&folder, mode).as_ref()).is_ok(), "{mode:o}");
    }
    for mode in [0o644, 0o640, 0o604, 0o620] {
        let path = file(&folder, mode);
        let refusal = read_file(path.as_ref()).unwrap_err();
        let expected = format!(
            "HOST_STORE_URL_FILE: the file {path}: other users may read it; run chmod 600 on it"
        );
        assert!(refusal.starts_with(&expected), "{refusal}");
        assert!(!refusal.contains("geheim"), "{refusal}");
    }
    // The target of a link decides.
    for (target, is_taken) in [("600", true), ("644", false)] {
        let link = folder.path().join(format!("link-{target}"));
        symlink(target, &link).unwrap();
        assert_eq!(read_file(&link).is_ok(), is_taken, "{target}");
    }
}

#[test]
fn the_address_comes_from_one_place() {
    let folder = TempDir::new().unwrap();
    let path = file(&folder, 0o600);
    let file = ("HOST_STORE_URL_FILE", path.as_str());
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
    let folder = TempDir::new().unwrap();
    let path = file(&folder, 0o600);
    let file = ("HOST_STORE_URL_FILE", path.as_str());
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
        (None, &[variable, file][..], "conflicts with"),
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
