//! `host:jobs/log`: the job's log.

use host_core::cell::Level;
use wasmtime::Result;

use crate::bindings::host::jobs::log::{Host, Level as GuestLevel};
use crate::context::Guest;

impl Host for Guest {
    fn write(
        &mut self,
        level: GuestLevel,
        message: String,
        fields: Vec<(String, String)>,
    ) -> Result<()> {
        let level = match level {
            GuestLevel::Trace => Level::Trace,
            GuestLevel::Debug => Level::Debug,
            GuestLevel::Info => Level::Info,
            GuestLevel::Warn => Level::Warn,
            GuestLevel::Error => Level::Error,
        };
        self.output.write(level, message, fields);
        Ok(())
    }
}
