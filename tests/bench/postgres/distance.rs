//! Several hosts far from their server: a proxy delays what they send to it. The load of each is the same, and small
//! enough that a machine has time for all of them: they wait for the server, not for a processor.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use host_tests::Cluster;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::{Database, beside_each_other};
use crate::Args;
use crate::report::{Report, Target};

/// How much longer the way to the server takes.
const DELAY: Duration = Duration::from_millis(5);

/// How many hosts there are, and the least times the rate of one that they must reach.
const NODES: [(usize, Option<f64>); 3] = [(1, None), (4, Some(3.2)), (8, Some(5.5))];

/// How many jobs are in flight at each host.
const IN_FLIGHT: usize = 16;

/// The name of a server's socket.
const SOCKET: &str = ".s.PGSQL.5432";

/// How many pieces may be on the way.
const PIECES_MAX: usize = 1_024;

pub(super) async fn measure(args: &Args, cluster: &Cluster, report: &mut Report) -> Result<()> {
    let folder = TempDir::new()?;
    let listener = UnixListener::bind(folder.path().join(SOCKET))?;
    let proxy = tokio::spawn(serve(listener, cluster.folder().to_owned()));
    let named = |nodes: usize| {
        let delay = DELAY.as_millis();
        format!("{IN_FLIGHT} jobs in flight on each of {nodes} nodes, {delay} ms from the server")
    };
    for (nodes, least) in NODES {
        let schema = format!("distance_{nodes}");
        Database::make(cluster, &schema)?;
        let database = Database::at(&Cluster::url_at(folder.path()), &schema);
        let (rates, costs) = beside_each_other(args, cluster, &database, nodes, IN_FLIGHT).await?;
        let name = named(nodes);
        report.add(name.as_str(), "jobs/s", rates, None);
        report.add(format!("{name}, CPU of the server"), "µs/job", costs, None);
        if let Some(least) = least {
            let ratio = format!("{name} to one");
            report.ratio(&ratio, &name, &named(1), Target::AtLeast(least));
        }
    }
    proxy.abort();
    Ok(())
}

async fn serve(listener: UnixListener, server: std::path::PathBuf) -> Result<()> {
    let mut connections = JoinSet::new();
    loop {
        let (near, _) = listener.accept().await?;
        connections.spawn(carry(near, server.join(SOCKET)));
        while connections.try_join_next().is_some() {}
    }
}

/// Carries the bytes of a connection until one side ends it.
async fn carry(near: UnixStream, server: impl AsRef<Path>) -> Result<()> {
    let far = UnixStream::connect(server).await?;
    let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
    tokio::select! {
        ended = pass(near_in, far_out, DELAY) => ended,
        ended = pass(far_in, near_out, Duration::ZERO) => ended,
    }
}

/// Passes bytes on, each after the delay.
async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, delay: Duration) -> Result<()> {
    let (sender, mut receiver) = mpsc::channel::<(Instant, Vec<u8>)>(PIECES_MAX);
    let reading = async move {
        loop {
            let mut piece = Vec::with_capacity(64 << 10);
            if from.read_buf(&mut piece).await? == 0 {
                return anyhow::Ok(());
            }
            let due = Instant::now() + delay;
            sender
                .send((due, piece))
                .await
                .context("the other end is gone")?;
        }
    };
    let writing = async move {
        while let Some((due, piece)) = receiver.recv().await {
            sleep_until(due).await;
            to.write_all(&piece).await?;
        }
        Ok(())
    };
    tokio::try_join!(reading, writing).map(drop)
}
