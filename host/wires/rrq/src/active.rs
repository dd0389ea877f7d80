//! An open RRQ wire: its socket is bound, so that connections wait for [`Active::run`].

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use host_core::name::Name;
use host_wire_kit::executors::Executors;
use host_wire_kit::{Active, ExecutorPorts, Mode, OpenError, OpenWire, Ports};
use tokio::net::TcpListener;

use super::WIRE;
use super::config::PoolConfig;
use super::executors::Pools;
use super::serve::{WorkerPorts, bind, serve};
use super::settings::RrqConfig;
use super::worker::Rules;

struct ActiveRrq {
    listening: Option<TcpListener>,
    rules: Rules,
    pools: BTreeMap<Name, PoolConfig>,
}

/// Binds the socket, if an address is configured.
pub(super) async fn open(config: &RrqConfig, mode: &Mode) -> Result<OpenWire, OpenError> {
    let is_worker = matches!(mode, Mode::Worker { .. });
    let listening = match config.listen {
        Some(address) => Some(listen(address, is_worker).await?),
        None if is_worker => {
            let message = "no address to listen on; pass --tcp-socket HOST:PORT";
            return Err(OpenError::usage(message));
        }
        None => None,
    };
    let address = listening
        .as_ref()
        .map(|(address, _)| address)
        .map_or("off".to_owned(), SocketAddr::to_string);
    let active = ActiveRrq {
        listening: listening.map(|(_, listener)| listener),
        rules: config.rules,
        // `host worker` has no pools: it only executes jobs.
        pools: if is_worker {
            BTreeMap::new()
        } else {
            config.pools.clone()
        },
    };
    Ok(OpenWire {
        // Orchestrators must not wait until all handlers are compiled.
        runs_early: is_worker,
        ends_with_parent: is_worker,
        ..OpenWire::new(active, vec![(WIRE, address)])
    })
}

async fn listen(
    address: SocketAddr,
    is_worker: bool,
) -> Result<(SocketAddr, TcpListener), OpenError> {
    let listener = bind(address).await.map_err(|error| {
        if is_worker {
            return OpenError::usage(error.to_string());
        }
        OpenError::failed(format!(
            "{error}; give another address with --rrq-listen (port 0 takes a free one, `off` takes none)"
        ))
    })?;
    let bound = listener.local_addr().map_err(|error| {
        OpenError::failed(format!(
            "cannot read the address of the socket for RRQ: {error}"
        ))
    })?;
    Ok((bound, listener))
}

impl Active for ActiveRrq {
    fn executors(&mut self, ports: &ExecutorPorts) -> Option<Arc<dyn Executors>> {
        if self.pools.is_empty() {
            return None;
        }
        Some(Arc::new(Pools::start(&self.pools, ports)))
    }

    fn run(self: Box<Self>, ports: Ports) -> BoxFuture<'static, Result<(), OpenError>> {
        Box::pin(async move {
            let Some(listener) = self.listening else {
                ports.stopping.cancelled().await;
                return Ok(());
            };
            let worker = WorkerPorts {
                executor: (ports.execute)(),
                clock: ports.clock,
                counters: ports.counters,
                rules: self.rules,
            };
            serve(listener, worker, ports.stopping).await;
            Ok(())
        })
    }
}
