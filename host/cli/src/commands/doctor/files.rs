//! Checks the files that the configuration names and a host reads only when a job needs them.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use host_cells::sandbox::broker::{Reach, SecretSource};
use host_wire_kit::check::Check;

const NAME: &str = "files";

/// Checks the secret and certificate files, if any are configured.
pub(super) fn checks(reach: &Reach) -> Vec<Check> {
    let secrets = reach
        .secrets
        .iter()
        .filter_map(|(name, source)| match source {
            SecretSource::File(path) => Some((format!("secrets.{name}.file"), path)),
            SecretSource::Value(_) => None,
        });
    let authorities = reach
        .authorities
        .iter()
        .map(|path| ("egress.ca_file".to_owned(), path));
    let files: Vec<_> = secrets.chain(authorities).collect();
    let flaws: Vec<_> = files
        .iter()
        .filter_map(|(key, path)| {
            let error = read(path).err()?;
            let found = format!("{key}: cannot read {}: {error}", path.display());
            let next =
                "write it so that the host's user can read it; until then, what needs it fails";
            Some(Check::warn(NAME, found, next))
        })
        .collect();
    if flaws.is_empty() && !files.is_empty() {
        let found = "those of secrets and certificates can be read";
        return vec![Check::ok(NAME, found)];
    }
    flaws
}

fn read(path: &Path) -> io::Result<()> {
    match File::open(path)?.read(&mut [0])? {
        0 => Err(io::Error::other("it is empty")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_file_that_cannot_be_read_is_named_with_its_key() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("empty"), "").unwrap();
        std::fs::write(path("key"), "secret").unwrap();
        let file = |name: &str| (name.to_owned(), SecretSource::File(path(name)));
        let mut reach = Reach {
            secrets: BTreeMap::from([file("key")]),
            ..Reach::default()
        };
        let found = |reach: &Reach| -> Vec<String> {
            checks(reach).into_iter().map(|check| check.found).collect()
        };
        assert_eq!(found(&Reach::default()), Vec::<String>::new());
        assert_eq!(
            found(&reach),
            ["those of secrets and certificates can be read"]
        );
        reach.secrets.extend([file("empty")]);
        reach.authorities = Some(path("none"));
        let found = found(&reach);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].starts_with("secrets.empty.file: cannot read"),
            "{found:?}"
        );
        assert!(
            found[1].starts_with("egress.ca_file: cannot read"),
            "{found:?}"
        );
    }
}
