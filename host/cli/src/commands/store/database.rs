//! The database that the configuration names, as `host store` is given it: what it is, and that its
//! schema is raised.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use host_api::client::Item;
use host_console::error::{CliError, Exit};
use host_console::options::OutputOptions;
use host_console::output::Output;
use host_console::progress::Spinner;
use host_console::table::{Cell, Column, Rows};
use host_console::{human, plain};
use host_engine::StoreError;
use host_server::config::{Config, Database, Flags};
use host_store::Finding;
use host_store::postgres::admin::{self, Status};
use host_wire_kit::check::Check;
use host_wire_kit::section::Stated;
use serde_json::json;

/// The key that `--store` is.
const STORE: &str = "store.url";

/// Where the database is.
#[derive(Debug, Args)]
pub(super) struct StoreOptions {
    /// The configuration file (TOML); `HOST_CONFIG` names it too
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// The database; `HOST_STORE_URL` and the configuration name it too
    #[arg(long, value_name = "URL")]
    pub(super) store: Option<String>,
}

impl StoreOptions {
    /// Returns the database, which `flag` may name; `None` if the configuration names none either.
    pub(super) fn find(self, flag: &str, doing: &str) -> Result<Option<Database>, CliError> {
        let store = self
            .store
            .map(|url| (STORE.to_owned(), Stated::by_flag(flag, url)));
        let flags = Flags {
            config: self.config,
            values: store.into_iter().collect::<BTreeMap<_, _>>(),
            ..Flags::default()
        };
        let config =
            Config::load(&flags).map_err(|error| CliError::new(Exit::Usage, doing, error))?;
        Ok(config.store)
    }

    /// Returns the database, which `flag` could have named.
    pub(super) fn need(self, flag: &str, doing: &str) -> Result<Database, CliError> {
        self.find(flag, doing)?.ok_or_else(|| {
            let next =
                format!("name it with --{flag}, HOST_STORE_URL or store.url of the configuration");
            CliError::new(Exit::Usage, doing, "no database was given").next(next)
        })
    }
}

/// Checks the store in a database, which must have one.
pub(super) fn check(
    database: &Database,
    doing: &str,
    spinner: &Spinner,
) -> Result<Vec<Finding>, CliError> {
    let target = &database.target;
    let found = host_store::postgres::check::check(target, &mut |part, rows| {
        let rows = match rows {
            0 => String::new(),
            rows => format!(", {} rows", human::count(rows)),
        };
        spinner.say(&format!("checking {target}: {part}{rows}"));
    });
    found.map_err(|error| failed(doing, &error))?.ok_or_else(|| {
        CliError::new(Exit::NotFound, doing, "the database has no store yet").next(
            "`host store migrate` creates the tables; if you expected a store, check the names of the database \
             and of the schema",
        )
    })
}

#[derive(Debug, Args)]
pub(super) struct DatabaseArgs {
    #[command(flatten)]
    place: StoreOptions,
    #[command(flatten)]
    shown: OutputOptions,
}

impl DatabaseArgs {
    /// Brings the schema to the latest version.
    pub(super) fn migrate(self) -> Result<(), CliError> {
        let output = self.shown.open();
        let doing = "migrate the database";
        let database = self.place.need("store", doing)?;
        let (before, after) =
            admin::migrate(&database.target).map_err(|error| failed(doing, &error))?;
        let document =
            json!({"store": database.target.to_string(), "before": before, "after": after});
        show(output, doing, &document, || {
            vec![
                ("STORE", database.target.to_string()),
                ("SCHEMA BEFORE", version(before)),
                ("SCHEMA NOW", version(after)),
            ]
        })
    }

    /// Shows what the database is.
    pub(super) fn status(self) -> Result<(), CliError> {
        let output = self.shown.open();
        let doing = "inspect the database";
        let database = self.place.need("store", doing)?;
        let status = admin::status(&database.target).map_err(|error| failed(doing, &error))?;
        let document = json!({
            "store": database.target.to_string(),
            "server": status.server,
            "schema": status.schema,
            "schema_known": status.known,
            "unsafe_settings": status.unsafe_settings,
            "live_jobs": status.live_jobs,
            "ended_jobs": status.ended_jobs,
            "bytes": status.bytes,
        });
        show(output, doing, &document, || {
            let unsafe_settings = match &status.unsafe_settings[..] {
                [] => "none".to_owned(),
                settings => format!("{} off", settings.join(", ")),
            };
            vec![
                ("STORE", database.target.to_string()),
                ("SERVER", status.server.clone()),
                ("SCHEMA", schema(&status)),
                ("UNSAFE SETTINGS", unsafe_settings),
                ("LIVE JOBS", format!("about {}", status.live_jobs)),
                ("ENDED JOBS", format!("about {}", status.ended_jobs)),
                ("SIZE", human::bytes(status.bytes.unsigned_abs())),
            ]
        })
    }
}

fn failed(doing: &str, error: &StoreError) -> CliError {
    CliError::new(Exit::Failed, doing, error)
}

fn version(number: i64) -> String {
    if number == 0 {
        "none".to_owned()
    } else {
        number.to_string()
    }
}

fn schema(status: &Status) -> String {
    let (there, known) = (status.schema, status.known);
    let next = match there.cmp(&known) {
        std::cmp::Ordering::Less => {
            "; `host store migrate` or the next start of a host migrates it"
        }
        std::cmp::Ordering::Equal => "",
        std::cmp::Ordering::Greater => "; this program is too old for it",
    };
    format!("{}, this program knows {known}{next}", version(there))
}

fn show(
    output: Output,
    doing: &str,
    document: &serde_json::Value,
    lines: impl FnOnce() -> Vec<(&'static str, String)>,
) -> Result<(), CliError> {
    let item = Item::new(document).map_err(|error| CliError::new(Exit::Failed, doing, error))?;
    output.list(
        &[item],
        |_| "",
        || {
            let mut rows = Rows::new(&[Column::Left("WHAT"), Column::Left("FOUND")]);
            for (name, value) in lines() {
                rows.row(vec![Cell::new(name), Cell::new(plain::line(&value))]);
            }
            rows
        },
    )
}

/// Looks at the database of a configuration, for `host doctor`.
pub(crate) fn checked(database: &Database) -> Check {
    let name = "store";
    let place = &database.target;
    let status = match admin::status(place) {
        Ok(status) => status,
        Err(error) => {
            let (place, mut found) = (place.to_string(), error.to_string());
            if !found.contains(&place) {
                found = format!("{place}: {found}");
            }
            return Check::fail(
                name,
                found,
                "check store.url, the server and its pg_hba.conf",
            );
        }
    };
    let found = format!(
        "{place}: PostgreSQL {}, schema {}",
        status.server,
        schema(&status)
    );
    if status.schema > status.known {
        return Check::fail(
            name,
            found,
            "start a host at least as new as the one that migrated the schema",
        );
    }
    let Some(setting) = status.unsafe_settings.first() else {
        return Check::ok(name, found);
    };
    let found = format!("{found}; {setting} is off, so acknowledged jobs could be lost");
    let next = format!("turn {setting} on");
    if database.allow_unsafe {
        Check::warn(name, found, next)
    } else {
        Check::fail(name, found, next)
    }
}
