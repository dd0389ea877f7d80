//! The sections `[outbox.NAME]`.

use host_store::postgres::target::Target;
use host_wire_kit::section::{At, ConfigError, Section, Tables};

use super::store::target_of;
use crate::outbox::{ConfiguredOutbox, Keys};

/// Interprets the sections.
pub(super) fn read(
    section: &Section<'_>,
    tables: Tables<Keys>,
) -> Result<Vec<ConfiguredOutbox>, ConfigError> {
    let outboxes = tables.into_iter().map(|(name, table)| {
        let keys = &table.value;
        let url = section.text_or_file(keys.database.as_ref(), keys.database_file.as_ref())?;
        let Some(url) = url else {
            let message = "missing `database` or `database_file`, the application's database";
            return Err(table.hidden(message));
        };
        if let Some(path) = &keys.database_file {
            Target::check_file(path).map_err(|error| path.hidden(error.to_string()))?;
        }
        let target = target_of(section, &url)?;
        let At { value, .. } = table;
        Ok(value.into_configured(name, target))
    });
    outboxes.collect()
}
