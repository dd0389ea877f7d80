//! Secrets that suites plant in place of real ones, and the search for them and for others in a host's output: raw, in
//! hexadecimal and in base64.

use std::ffi::OsStr;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The mark of every planted secret, which occurs nowhere else.
const MARK: &str = "pl4nted-s3cret";

/// The token of the pool `ci` of Delta runners.
pub const DELTA_TOKEN: &str = "pl4nted-s3cret-of-the-pool-ci-91c3";
/// The secret that an Arco worker expects from its control plane.
pub const ARCO_SECRET: &str = "pl4nted-s3cret-of-dispatches-27aa";
/// A variable of each host that no manifest may grant.
pub const VARIABLE: (&str, &str) = ("PLANTED", "pl4nted-s3cret-in-the-environment-5d0e");

/// Files into which tests themselves write secrets.
const GIVEN: &[&str] = &["ci.token", "secret", "host.toml"];

/// Large files that no text gets into: compiled components, which hosts share, and room on the disk.
const LARGE: &[&str] = &["*.cwasm", "*.db-reserve"];

/// Pages that a host shows to every client.
const PAGES: &[&str] = &["/healthz", "/readyz", "/metrics", "/api/v1/runners"];

/// How long a page may take. A stopping host answers none.
const PAGE_TIMEOUT: Duration = Duration::from_secs(2);

/// Returns where a planted secret is: in a file below `folder`.
///
/// # Panics
///
/// If there is no `grep`, which searches much faster than unoptimized tests.
pub fn found_in(folder: &Path) -> Option<PathBuf> {
    is_below(folder, MARK)
}

/// Returns a file below `folder` that has a secret, in any encoding.
///
/// # Panics
///
/// If there is no `grep`.
pub fn is_below(folder: &Path, secret: &str) -> Option<PathBuf> {
    let mut grep = Command::new("grep");
    let left_out = LARGE.iter().chain(GIVEN);
    grep.args(["--recursive", "--text", "--fixed-strings", "--devices=skip"])
        .args(["--files-with-matches", "--null", "--no-messages"])
        .args(left_out.map(|name| format!("--exclude={name}")));
    for form in forms(secret) {
        grep.arg("--regexp").arg(form);
    }
    let found = grep.arg(folder).output().expect("grep runs").stdout;
    let first = found.split(|byte| *byte == 0).next()?;
    (!first.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(first)))
}

/// Returns the page of the host at `address` that has a planted secret.
pub fn found_at(address: &str) -> Option<&'static str> {
    let pages = PAGES.iter().copied();
    pages
        .map(|page| (page, page_at(address, page).unwrap_or_default()))
        .find(|(_, text)| has_secret(text))
        .map(|(page, _)| page)
}

fn page_at(address: &str, page: &str) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PAGE_TIMEOUT))?;
    write!(
        stream,
        "GET {page} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )?;
    let mut text = Vec::new();
    stream.read_to_end(&mut text)?;
    Ok(text)
}

/// Returns whether the text has a planted secret.
pub fn has_secret(text: &[u8]) -> bool {
    has(&String::from_utf8_lossy(text), MARK)
}

/// Returns whether the text has a secret, in any encoding.
pub fn has(text: &str, secret: &str) -> bool {
    forms(secret).iter().any(|form| text.contains(form))
}

/// Returns a secret in all its encodings.
fn forms(secret: &str) -> Vec<String> {
    let digit = |byte: u8| char::from_digit(u32::from(byte), 16).unwrap_or_default();
    let digits = secret
        .bytes()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
    let small: String = digits.collect();
    let mut forms = vec![secret.to_owned(), small.to_uppercase(), small];
    // In base64 it differs after zero, one and two bytes. The first group contains what was before it.
    for skipped in 0..3 {
        let rest = &secret.as_bytes()[skipped..];
        let whole = &rest[..rest.len() / 3 * 3];
        forms.push(whole.chunks(3).flat_map(base64).map(char::from).collect());
    }
    forms
}

fn base64(group: &[u8]) -> Vec<u8> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits = group
        .iter()
        .fold(0_usize, |bits, byte| (bits << 8) | usize::from(*byte));
    [18, 12, 6, 0]
        .map(|shift| LETTERS[(bits >> shift) & 63])
        .to_vec()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn planted_secrets_are_found_in_every_form() {
        for secret in [DELTA_TOKEN, ARCO_SECRET, VARIABLE.1] {
            assert!(secret.contains(MARK));
        }
        // `printf 'xpl4nted-s3crety' | base64`, with nothing, one and two bytes before it.
        for text in [
            "a pl4nted-s3cret-b",
            "706c346e7465642d733363726574",
            "706C346E7465642D733363726574",
            "cGw0bnRlZC1zM2NyZXR5",
            "eHBsNG50ZWQtczNjcmV0eQ==",
            "eHhwbDRudGVkLXMzY3JldHk=",
        ] {
            assert!(has_secret(text.as_bytes()), "{text}");
        }
        for text in ["", "pl4nted-s3cre", "planted-secret", "706c346e7465642d"] {
            assert!(!has_secret(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn planted_secrets_are_found_in_files() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let put = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("it has one")).expect("it can be made");
            fs::write(&path, text).expect("it can be written");
            path
        };
        put("ci.token", DELTA_TOKEN);
        put("serve.log", "nothing");
        assert_eq!(found_in(folder.path()), None);
        let leak = put("deep/host.db", &format!("\0\0{}", VARIABLE.1));
        assert_eq!(found_in(folder.path()), Some(leak));
    }
}
