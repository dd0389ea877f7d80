//! The guest SDK in the packages, so that `host new` works where there is no checkout.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::{empty, folder, read, write};
use crate::cargo::{cargo, run};

/// The crates, and the folder of each in the package.
const CRATES: [(&str, &str); 2] = [
    ("host-guest-sdk", "guest-sdk"),
    ("host-guest-sdk-macros", "guest-sdk/macros"),
];

/// The SDK's dependency on its macros in cargo's package, which has no path.
const DEPENDENCY: &str = "[dependencies.host-guest-sdk-macros]\n";

/// Puts the publishable files of the SDK into the folder `guest-sdk` in `to`.
pub(super) fn install(work: &Path, to: &Path) -> Result<()> {
    let packaged = empty(&work.join("crates"))?;
    let mut package = cargo(&["package", "--no-verify", "--allow-dirty", "--quiet"]);
    for (name, _) in CRATES {
        package.args(["--package", name]);
    }
    run(package.arg("--target-dir").arg(&packaged))?;
    for (name, below) in CRATES {
        let place = to.join(below);
        folder(&place)?;
        let file = format!("{name}-{}.crate", env!("CARGO_PKG_VERSION"));
        run(Command::new("tar")
            .args(["--extract", "--gzip", "--strip-components=1", "--file"])
            .arg(packaged.join("package").join(file))
            .arg("--directory")
            .arg(&place))?;
    }
    let manifest = to.join("guest-sdk/Cargo.toml");
    let text = read(&manifest)?;
    ensure!(
        text.contains(DEPENDENCY),
        "the SDK does not depend on its macros"
    );
    let found = format!("{DEPENDENCY}path = \"macros\"\n");
    write(&manifest, &text.replace(DEPENDENCY, &found))?;
    std::fs::remove_dir_all(&packaged)
        .with_context(|| format!("cannot remove {}", packaged.display()))
}
