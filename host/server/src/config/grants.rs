//! What manifests may grant at most, and how cells are confined.

use std::path::{Path, PathBuf};

use host_cells::run::build::Environment;
use host_cells::sandbox::roots::{ROOTS_MAX, ReadRoots};
use host_cells::sandbox::spawn::Confinement;
use host_wires::wire::section::{ConfigError, Section, Sources, refused};

use super::SETTINGS;

/// The beginning of the names of the host's own variables.
const OWN: &str = "HOST_";

/// The most variables.
const VARIABLES_MAX: usize = 256;

/// Reads how cells are confined.
pub(super) fn confinement(values: &Section<'_>) -> Result<Confinement, ConfigError> {
    let mut confinement = Confinement::default();
    if let Some(user) = values.number("cells.user", 1, u64::from(u32::MAX) - 1)? {
        confinement.user = u32::try_from(user).unwrap_or(confinement.user);
    }
    if let Some((origin, text)) = values.find("cells.allow_weak") {
        confinement.allow_weak = text
            .parse()
            .map_err(|_| refused(origin, text, "expected true or false"))?;
    }
    if let Some((origin, text)) = values.find("grants.read_roots") {
        let roots: Vec<PathBuf> = items(text).map(PathBuf::from).collect();
        let is_taken = |root: &PathBuf| root.is_absolute();
        if roots.len() > ROOTS_MAX || !roots.iter().all(is_taken) {
            let wanted = format!("expected at most {ROOTS_MAX} absolute paths");
            return Err(refused(origin, text, wanted));
        }
        confinement.read_roots = ReadRoots::new(roots);
    }
    Ok(confinement)
}

/// Returns the part of the environment that manifests may grant.
pub(super) fn grantable(
    values: &Section<'_>,
    environment: &Environment,
) -> Result<Environment, ConfigError> {
    let Some((origin, text)) = values.find("grants.env") else {
        return Ok(Environment::new());
    };
    if items(text).any(|name| name.starts_with(OWN)) {
        let wanted = format!("the host's own variables ({OWN}…) cannot be granted");
        return Err(refused(origin, text, wanted));
    }
    if items(text).count() > VARIABLES_MAX {
        let wanted = format!("expected at most {VARIABLES_MAX} names");
        return Err(refused(origin, text, wanted));
    }
    let granted = items(text).filter_map(|name| {
        let value = environment.get(name)?;
        Some((name.to_owned(), value.clone()))
    });
    Ok(granted.collect())
}

/// Reads both for a single run, from flags and from the environment alone.
pub fn for_one_run(
    flags: &std::collections::BTreeMap<String, String>,
    environment: &Environment,
) -> Result<(Confinement, Environment), ConfigError> {
    let none = std::collections::BTreeMap::new();
    let sources = Sources {
        flags,
        environment,
        values: &none,
        tables: &std::collections::BTreeMap::new(),
        read: &super::file::bytes,
    };
    let values = Section::new(SETTINGS, sources);
    Ok((confinement(&values)?, grantable(&values, environment)?))
}

/// Checks that no root has the kernel's files in it, or those of the host: its data directory or its cache.
pub fn check_roots(confinement: &Confinement, private: &Path) -> Result<(), String> {
    let kernel = ["/proc", "/dev", "/sys"].map(Path::new);
    confinement
        .read_roots
        .check(kernel.into_iter().chain([private]))
}

fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
}
