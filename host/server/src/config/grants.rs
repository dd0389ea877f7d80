//! What manifests may grant at most, and the sandbox of cells.

use std::path::{Path, PathBuf};

use host_cells::run::build::Environment;
use host_cells::sandbox::roots::{ROOTS_MAX, ReadRoots};
use host_cells::sandbox::spawn::Confinement;
use host_wires::wire::section::{ConfigError, Section, Sources};

use super::{CELLS_ALLOW_WEAK, CELLS_USER, GRANTS_ENV, GRANTS_READ_ROOTS};

/// The prefix of the host's own variables.
const OWN: &str = "HOST_";

/// The most variables.
const VARIABLES_MAX: usize = 256;

/// Reads the sandbox of cells.
pub(super) fn confinement(values: &Section<'_>) -> Result<Confinement, ConfigError> {
    let mut confinement = Confinement::default();
    let user = values.number(&CELLS_USER)?;
    confinement.user = u32::try_from(user).unwrap_or(confinement.user);
    confinement.allow_weak = values.switch(&CELLS_ALLOW_WEAK)?;
    let roots = values.list(&GRANTS_READ_ROOTS).into_iter();
    let roots: Vec<PathBuf> = roots.map(PathBuf::from).collect();
    if roots.len() > ROOTS_MAX || !roots.iter().all(|root| root.is_absolute()) {
        let wanted = format!("expected at most {ROOTS_MAX} absolute paths");
        return Err(values.refuse(&GRANTS_READ_ROOTS, wanted));
    }
    confinement.read_roots = ReadRoots::new(roots);
    Ok(confinement)
}

/// Returns the part of the environment that manifests may grant.
pub(super) fn grantable(
    values: &Section<'_>,
    environment: &Environment,
) -> Result<Environment, ConfigError> {
    let names = values.list(&GRANTS_ENV);
    if names.iter().any(|name| name.starts_with(OWN)) {
        let wanted = format!("the host's own variables ({OWN}…) cannot be granted");
        return Err(values.refuse(&GRANTS_ENV, wanted));
    }
    if names.len() > VARIABLES_MAX {
        let wanted = format!("expected at most {VARIABLES_MAX} names");
        return Err(values.refuse(&GRANTS_ENV, wanted));
    }
    let granted = names.into_iter().filter_map(|name| {
        let value = environment.get(name)?;
        Some((name.to_owned(), value.clone()))
    });
    Ok(granted.collect())
}

/// Reads both for a single run, only from flags and the environment.
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
    let values = Section::new(sources);
    Ok((confinement(&values)?, grantable(&values, environment)?))
}

/// Checks that no root contains the kernel's files or the host's own: its data directory or its cache.
pub fn check_roots(confinement: &Confinement, private: &Path) -> Result<(), String> {
    let kernel = ["/proc", "/dev", "/sys"].map(Path::new);
    confinement
        .read_roots
        .check(kernel.into_iter().chain([private]))
}
