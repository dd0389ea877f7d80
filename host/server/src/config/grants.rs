//! What manifests may grant at most, and the sandbox of cells.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use host_cells::run::build::Environment;
use host_cells::sandbox::broker::{Reach, SecretSource};
use host_cells::sandbox::roots::ReadRoots;
use host_cells::sandbox::spawn::Confinement;
use host_core::http_grant::is_secret_name;
use host_core::name::Name;
use host_wire_kit::section::{At, ConfigError, Document, Stated, Tables};
use ipnet::IpNet;

use super::keys::{Cells, Egress, Grants, Root, Secret};

/// The prefix of the host's own variables.
const OWN: &str = "HOST_";

/// Returns the sandbox of cells.
pub(super) fn confinement(cells: &Cells, grants: &Grants) -> Result<Confinement, ConfigError> {
    let roots = &grants.read_roots;
    if !roots.iter().all(|root| root.is_absolute()) {
        return Err(roots.hidden("expected absolute paths"));
    }
    Ok(Confinement {
        user: cells.user.narrow(),
        allow_weak: cells.allow_weak,
        read_roots: ReadRoots::new(roots.to_vec()),
    })
}

/// Returns the part of the environment that manifests may grant.
pub(super) fn grantable(
    grants: &Grants,
    environment: &Environment,
) -> Result<Environment, ConfigError> {
    if let Some(own) = grants.env.iter().find(|name| name.starts_with(OWN)) {
        let wanted = format!("the host's own variables ({OWN}…) cannot be granted");
        return Err(grants.env.refuse_item(own, wanted));
    }
    let granted = grants.env.iter().filter_map(|name| {
        let value = environment.get(name)?;
        Some((name.clone(), value.clone()))
    });
    Ok(granted.collect())
}

/// Returns what requests of guests may reach.
pub(super) fn reach(
    grants: &Grants,
    egress: Egress,
    secrets: &Tables<Secret>,
    environment: &Environment,
) -> Result<Reach, ConfigError> {
    let secrets = secrets
        .iter()
        .map(|(name, table)| {
            let source = secret(name, table, environment)?;
            Ok((name.to_string(), source))
        })
        .collect::<Result<BTreeMap<_, _>, _>>()?;
    let visible: BTreeSet<String> = grants.secrets.iter().cloned().collect();
    if let Some(other) = visible.iter().find(|name| !secrets.contains_key(*name)) {
        let wanted = format!("expected names of sections [secrets.NAME], and {other} has none");
        return Err(grants.secrets.refuse_item(other, wanted));
    }
    let networks = "networks like 10.1.0.0/16";
    let nameservers = "addresses with ports, like 10.0.0.53:53";
    let mut reachable: Vec<IpNet> = grants.networks.parse(networks)?;
    reachable.extend(grants.http_networks.parse::<IpNet>(networks)?);
    Ok(Reach {
        origins: grants.http.parse("servers like https://api.example.com")?,
        endpoints: grants.tcp.parse("servers like db.internal:5432")?,
        networks: reachable,
        nameservers: egress.nameservers.parse(nameservers)?,
        authorities: egress.ca_file,
        secrets,
        visible,
    })
}

/// Returns where the value of a secret is.
fn secret(
    name: &Name,
    table: &At<Secret>,
    environment: &Environment,
) -> Result<SecretSource, ConfigError> {
    if !is_secret_name(name.as_str()) {
        let message = "a secret's name has 1–64 letters, digits, `-` and `_`";
        return Err(table.hidden(message));
    }
    match (&table.file, &table.env) {
        (Some(path), None) => Ok(SecretSource::File(path.clone())),
        (None, Some(variable)) => match environment.get(&variable.value) {
            Some(value) => Ok(SecretSource::Value(value.clone())),
            None => Err(variable.hidden(format!("the variable {} is not set", variable.value))),
        },
        _ => Err(table.hidden("expected either `file` or `env`")),
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
    let settings = [Cells::SETTINGS, Grants::SETTINGS, Egress::SETTINGS];
    let mut document = Document::default().with(settings.into_iter().flatten(), environment, flags);
    add_secrets(&mut document, secrets);
    let root: Root = document.read("")?;
    Ok(ForOneRun {
        confinement: confinement(&root.cells, &root.grants)?,
        environment: grantable(&root.grants, environment)?,
        reach: reach(&root.grants, root.egress, &root.secrets, environment)?,
    })
}

/// Adds secrets that are variables of the environment, as `--secret` gives them.
pub(super) fn add_secrets(document: &mut Document, secrets: &[(Name, String)]) {
    for (name, variable) in secrets {
        let place = format!("--secret {name}");
        document.set(&["secrets", name.as_str(), "env"], &place, variable);
    }
}

/// Checks that no root contains the kernel's files or the host's own: its data directory or its cache.
pub fn check_roots(confinement: &Confinement, private: &Path) -> Result<(), String> {
    let kernel = ["/proc", "/dev", "/sys"].map(Path::new);
    confinement
        .read_roots
        .check(kernel.into_iter().chain([private]))
}
