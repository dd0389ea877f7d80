//! `host component verify`: checks the signature of a file, as a host does that asks for signatures.

use std::path::PathBuf;

use clap::Args;
use host_cells::deploy::trust::{Key, Trust};
use host_console::error::{CliError, Exit};
use host_console::options::OutputOptions;
use host_console::plain;
use host_console::table::Rows;
use host_server::config::{Config, Flags};
use serde_json::json;

use crate::component_file::{component, signature};

/// Check whether a trusted key has signed a component.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host component verify report.wasm --key RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3
  host component verify report.wasm --config /etc/host/host.toml

Without --key, the keys are those of `deploy.trusted_keys`. `minisign -Sm FILE` signs a file.

Exit codes: 0 the signature is good, 1 it is not, 2 the command line is wrong.")]
pub(super) struct Verify {
    /// The WebAssembly component
    file: PathBuf,
    /// Its signature [default: FILE.minisig]
    #[arg(long, value_name = "FILE")]
    signature: Option<PathBuf>,
    /// A public key of minisign (repeatable)
    #[arg(long, value_name = "KEY")]
    key: Vec<Key>,
    /// The configuration file (TOML) with the trusted keys; `HOST_CONFIG` names it too
    #[arg(long, value_name = "FILE", conflicts_with = "key")]
    config: Option<PathBuf>,
    #[command(flatten)]
    shown: OutputOptions,
}

impl Verify {
    /// Checks one file.
    pub(super) fn run(self) -> Result<(), CliError> {
        let output = self.shown.open();
        let file = self.file.display().to_string();
        let doing = format!("verify {}", plain::line(&file));
        let trust = self.trust(&doing)?;
        let bytes = component(&self.file)?;
        let signature = signature(&self.file, self.signature.as_deref())?;
        let checked = trust.check(&bytes, signature.as_deref());
        let signed = checked.map_err(|error| {
            CliError::new(Exit::Failed, &doing, error).next("`minisign -Sm FILE` signs a file")
        })?;
        let key = signed.map(|it| it.key).unwrap_or_default();
        let json = json!({"file": file, "signed_by": key}).to_string();
        output.print_item(&json, &key, || {
            let mut rows = Rows::pairs();
            rows.pair("signed by", &key);
            output.rows(rows)
        })
    }

    fn trust(&self, doing: &str) -> Result<Trust, CliError> {
        if !self.key.is_empty() {
            return Ok(self.key.iter().cloned().collect());
        }
        let config = self.config.clone();
        let values = Flags::default().values;
        let flags = Flags {
            config,
            values,
            ..Flags::default()
        };
        let config =
            Config::load(&flags).map_err(|error| CliError::new(Exit::Usage, doing, error))?;
        if config.trust.requires_signatures() {
            return Ok(config.trust);
        }
        let cause = "no key is given or configured";
        let next = "pass one with --key, or set deploy.trusted_keys in the configuration";
        Err(CliError::new(Exit::Usage, doing, cause).next(next))
    }
}
