//! What manifests may grant at most, and the sandbox of cells.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use host_cells::run::build::Environment;
use host_cells::sandbox::broker::{Reach, SecretSource};
use host_cells::sandbox::roots::{ROOTS_MAX, ReadRoots};
use host_cells::sandbox::spawn::Confinement;
use host_core::http_grant::is_secret_name;
use host_core::name::Name;
use host_wire_kit::section::{ConfigError, NamedTable, Section, Sources, Stated, Tables};

use super::{
    CELLS_ALLOW_WEAK, CELLS_USER, EGRESS_CA_FILE, EGRESS_NAMESERVERS, GRANTS_ENV, GRANTS_HTTP,
    GRANTS_HTTP_NETWORKS, GRANTS_READ_ROOTS, GRANTS_SECRETS,
};

/// The prefix of the host's own variables.
const OWN: &str = "HOST_";

/// The most variables.
const VARIABLES_MAX: usize = 256;

/// The most servers, networks and DNS servers, each.
const HTTP_ITEMS_MAX: usize = 256;

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

/// Returns what requests of guests may reach.
pub(super) fn reach(values: &Section<'_>) -> Result<Reach, ConfigError> {
    let most = HTTP_ITEMS_MAX;
    let wanted = "servers like https://api.example.com";
    let origins = values.parsed(&GRANTS_HTTP, most, wanted)?;
    let wanted = "networks like 10.1.0.0/16";
    let networks = values.parsed(&GRANTS_HTTP_NETWORKS, most, wanted)?;
    let wanted = "addresses with ports, like 10.0.0.53:53";
    let nameservers = values.parsed(&EGRESS_NAMESERVERS, most, wanted)?;
    let secrets = values.tables("secrets").map(|(name, table)| {
        let source = secret(values, name, table)?;
        Ok((name.to_string(), source))
    });
    let secrets = secrets.collect::<Result<BTreeMap<_, _>, _>>()?;
    let visible: BTreeSet<String> = values
        .list(&GRANTS_SECRETS)
        .into_iter()
        .map(str::to_owned)
        .collect();
    if let Some(other) = visible.iter().find(|name| !secrets.contains_key(*name)) {
        let wanted = format!("expected names of sections [secrets.NAME], and {other} has none");
        return Err(values.refuse(&GRANTS_SECRETS, wanted));
    }
    Ok(Reach {
        origins,
        networks,
        nameservers,
        authorities: values.path(&EGRESS_CA_FILE),
        secrets,
        visible,
    })
}

/// Reads where the value of a secret is.
fn secret(
    values: &Section<'_>,
    name: &Name,
    table: &NamedTable,
) -> Result<SecretSource, ConfigError> {
    let refused = |message: String| ConfigError::Hidden {
        origin: table.origin(""),
        message,
    };
    if !is_secret_name(name.as_str()) {
        let message = "a secret's name has 1–64 letters, digits, `-` and `_`";
        return Err(refused(message.to_owned()));
    }
    match (table.text("file")?, table.text("env")?) {
        (Some(path), None) => Ok(SecretSource::File(PathBuf::from(path))),
        (None, Some(variable)) => match values.variable(variable) {
            Some(value) => Ok(SecretSource::Value(value.to_owned())),
            None => Err(refused(format!("the variable {variable} is not set"))),
        },
        _ => Err(refused("expected either `file` or `env`".to_owned())),
    }
}

/// What a single run may be given.
#[derive(Debug)]
pub struct ForOneRun {
    pub confinement: Confinement,
    pub environment: Environment,
    pub reach: Reach,
}

/// Reads it for a single run, only from flags and the environment. `secrets` are names and variables.
pub fn for_one_run(
    flags: &BTreeMap<String, Stated>,
    secrets: &[(Name, String)],
    environment: &Environment,
) -> Result<ForOneRun, ConfigError> {
    let mut named = Tables::default();
    for (name, variable) in secrets {
        let table = toml::Table::from_iter([("env".to_owned(), variable.clone().into())]);
        let origin = format!("--secret {name}");
        named.insert(name.clone(), NamedTable::new(origin, table));
    }
    let sources = Sources {
        flags,
        environment,
        values: &BTreeMap::new(),
        tables: &BTreeMap::from([("secrets".to_owned(), named)]),
        read: &super::file::bytes,
    };
    let values = Section::new(sources);
    Ok(ForOneRun {
        confinement: confinement(&values)?,
        environment: grantable(&values, environment)?,
        reach: reach(&values)?,
    })
}

/// Checks that no root contains the kernel's files or the host's own: its data directory or its cache.
pub fn check_roots(confinement: &Confinement, private: &Path) -> Result<(), String> {
    let kernel = ["/proc", "/dev", "/sys"].map(Path::new);
    confinement
        .read_roots
        .check(kernel.into_iter().chain([private]))
}
