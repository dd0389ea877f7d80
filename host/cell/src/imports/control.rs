//! `host:jobs/control`: cancellation, time, progress and waiting.

use tokio::time::{Duration, sleep};
use wasmtime::Result;

use crate::bindings::host::jobs::control::Host;
use crate::context::Guest;

impl Host for Guest {
    fn cancelled(&mut self) -> Result<Option<String>> {
        Ok(self.stop.reason())
    }

    fn remaining_ms(&mut self) -> Result<Option<u32>> {
        Ok(Some(self.stop.remaining_ms()))
    }

    fn progress(&mut self, percent: Option<f32>, message: String) -> Result<()> {
        self.output.progress(percent, message);
        Ok(())
    }

    async fn sleep_ms(&mut self, ms: u32) {
        sleep(Duration::from_millis(ms.into())).await;
    }
}
