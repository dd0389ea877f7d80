//! Keeps the certificate of the listeners up to date: follows its files, and shows how long it is valid.

use std::sync::atomic::AtomicU64;

use host_http::tls::{DAYS_MIN, Tls, TlsError};
use host_runtime::clock::Clock;
use host_runtime::tasks::Tasks;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{ServeError, files, system};
use crate::metrics::Metrics;

/// The metrics of a host with TLS.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbers {
    days_left: Gauge<f64, AtomicU64>,
    reload_failures: Counter,
}

impl Numbers {
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "http_certificate_days_left",
            "Days until the certificate of the API expires, negative if it has; only with TLS",
            self.days_left.clone(),
        );
        registry.register(
            "http_certificate_reload_failures",
            "Changed files of this certificate that could not be used, so the old one stayed in use; only with TLS",
            self.reload_failures.clone(),
        );
    }
}

/// Reads the files again when they change and on SIGHUP, until the host stops.
pub(super) fn watch(
    tls: Tls,
    metrics: &Metrics,
    clock: Clock,
    tasks: &Tasks,
) -> Result<(), ServeError> {
    if let Err(error) = tls.check(clock.now()) {
        tracing::error!(%error, "clients will refuse the certificate");
    } else if tls.days_left(clock.now()) < DAYS_MIN {
        tracing::warn!(
            days = tls.days_left(clock.now()),
            "the certificate expires soon"
        );
    }
    let numbers = Numbers::default();
    metrics.register(|registry| numbers.register(registry));
    metrics.show_certificate(numbers.days_left.clone());
    numbers.days_left.set(tls.days_left(clock.now()));
    let followed = files::follow(tasks, move |is_asked| {
        let (tls, numbers, now) = (tls.clone(), numbers.clone(), clock.now());
        async move {
            let reloaded = tls.clone();
            let reloading = tokio::task::spawn_blocking(move || reloaded.reload(now, is_asked));
            let reloaded = reloading.await.unwrap_or(Ok(false));
            numbers.reload_failures.inc_by(reloaded.is_err().into());
            log_reload(&tls, reloaded, is_asked);
            numbers.days_left.set(tls.days_left(now));
        }
    });
    followed.map_err(system("listen for SIGHUP"))
}

fn log_reload(tls: &Tls, reloaded: Result<bool, TlsError>, is_asked: bool) {
    match reloaded {
        Ok(true) => {
            let names = tls.names().join(", ");
            tracing::info!(names, "a new certificate is in use");
        }
        Ok(false) if is_asked => tracing::info!("the certificate has not changed"),
        Ok(false) => {}
        Err(error) => {
            tracing::error!(%error, "cannot use the changed certificate; the old one stays in use");
        }
    }
}
