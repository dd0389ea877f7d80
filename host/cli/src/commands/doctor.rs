//! `host doctor`: runs every check of this machine and prints what each found and what to do.

mod cells;
mod disk;
mod files;
mod machine;
mod network;

use std::path::{Path, PathBuf};

use clap::Args;
use host_api::client::Item;
use host_console::error::{CliError, Exit};
use host_console::options::OutputOptions;
use host_console::output::Output;
use host_console::plain;
use host_console::table::{Cell, Color, Column, Rows};
use host_runtime::owner::Owner;
use host_server::config::{Config, Flags};
use host_wire_kit::check::{Check, Status};
use host_wire_kit::section::ConfigError;

/// Check that a host can run well on this machine.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host doctor --data ./data
  host doctor --config /etc/host/host.toml
  host doctor -o json | jq '.[] | select(.status != \"ok\")'

Exit codes: 0 a host can run here, 1 a check failed.")]
pub(crate) struct Doctor {
    /// The configuration file (TOML); `HOST_CONFIG` names it too
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The data directory of the host [default: that of the configuration]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    #[command(flatten)]
    shown: OutputOptions,
}

impl Doctor {
    /// Runs the checks.
    pub(crate) fn run(self) -> Result<(), CliError> {
        let output = self.shown.open();
        let config = Config::load(&Flags {
            config: self.config,
            ..Flags::default()
        });
        let known = config.as_ref().ok();
        let data = self
            .data
            .or_else(|| known.map(|config| config.data.clone()));
        let mut checks = machine::checks();
        let place = data.as_deref().unwrap_or(Path::new("."));
        let of_disk = Owner::find(place).and_then(|owner| owner.act(|| disk::checks(place)));
        checks.extend(of_disk.unwrap_or_else(|error| {
            let next = "run this command as the host's user";
            vec![Check::fail("data directory", error.to_string(), next)]
        }));
        checks.extend(network::checks(known));
        checks.extend(configured(config, data.as_deref()));
        print(output, &checks)?;
        if checks.iter().any(|check| check.status == Status::Fail) {
            return Err(CliError::Silent(Exit::Failed));
        }
        output.hint("`host serve --data DIR` starts a host");
        Ok(())
    }
}

/// Looks at the configuration that `host serve` would have, at how cells are confined, and lets each wire
/// look at what it depends on.
fn configured(config: Result<Config, ConfigError>, data: Option<&Path>) -> Vec<Check> {
    match config {
        Ok(config) => {
            let mut checks = vec![
                cells::confined(
                    config.confinement.clone(),
                    &disk::existing(data.unwrap_or(&config.data)),
                    config.slots,
                ),
                cells::grouped(),
            ];
            checks.extend(files::checks(&config.reach));
            checks.extend(config.store.as_ref().map(super::store::database::checked));
            let wires = config.wires.iter();
            checks.extend(wires.flat_map(|wire| wire.configured.checks()));
            checks
        }
        Err(error) => {
            let next = "docs/config.md has all keys and variables";
            vec![Check::fail("configuration", error.to_string(), next)]
        }
    }
}

fn print(output: Output, checks: &[Check]) -> Result<(), CliError> {
    let items: Vec<_> = checks
        .iter()
        .map(Item::new)
        .collect::<Result<_, _>>()
        .map_err(|error| CliError::new(Exit::Failed, "write the checks as JSON", error))?;
    output.list(
        &items,
        |check| check.name,
        || {
            let mut rows = Rows::new(&[
                Column::Left("CHECK"),
                Column::Left("STATUS"),
                Column::Left("FOUND"),
            ]);
            for check in checks {
                let (word, color) = match check.status {
                    Status::Ok => ("ok", Color::Green),
                    Status::Warn => ("warn", Color::Yellow),
                    Status::Fail => ("fail", Color::Red),
                };
                // Servers that were asked may have worded it.
                let found = Cell::new(plain::block(&check.found));
                rows.row(vec![
                    Cell::new(check.name),
                    Cell::new(word).fg(color),
                    found,
                ]);
                if let Some(next) = &check.next {
                    rows.row(vec![
                        Cell::new(""),
                        Cell::new(""),
                        Cell::new(plain::block(&format!("→ {next}"))),
                    ]);
                }
            }
            rows
        },
    )
}
