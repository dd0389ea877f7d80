//! Checks files that may change while the host runs: certificates, and secrets for handlers.

use std::io;

use host_cells::process::Cells;
use host_http::tls::CHECK_EVERY;
use host_runtime::tasks::Tasks;
use tokio::signal::unix::{SignalKind, signal};

/// Calls `check` every [`CHECK_EVERY`] and on SIGHUP, until the tasks stop, and says which of them it was.
pub(crate) fn follow<F: Future<Output = ()> + Send>(
    tasks: &Tasks,
    mut check: impl FnMut(bool) -> F + Send + 'static,
) -> io::Result<()> {
    let mut hangup = signal(SignalKind::hangup())?;
    let stopping = tasks.stopping().clone();
    tasks.spawn(async move {
        loop {
            let is_asked = tokio::select! {
                () = stopping.cancelled() => return,
                () = tokio::time::sleep(CHECK_EVERY) => false,
                _ = hangup.recv() => true,
            };
            check(is_asked).await;
        }
    });
    Ok(())
}

/// Keeps what requests of handlers need up to date: their secrets, and the authorities that they trust.
pub(crate) fn follow_reach(cells: &Cells, tasks: &Tasks) -> io::Result<()> {
    if !cells.has_files() {
        return Ok(());
    }
    let cells = cells.clone();
    follow(tasks, move |is_asked| {
        let cells = cells.clone();
        async move {
            let reloading = tokio::task::spawn_blocking(move || cells.reload(is_asked));
            // What is wrong is in the log.
            let _ = reloading.await;
        }
    })
}
