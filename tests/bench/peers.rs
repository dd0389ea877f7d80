//! Queues of other projects and the host, in turns under the same load: graphile-worker on the host's own `PostgreSQL`,
//! and `BullMQ` on a Redis that keeps each change in a file. All data is in the build folder.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use host_tests::{Cluster, Redis, peers};
use serde_json::Value;

use crate::load::{self, Shape, arrays, single};
use crate::postgres;
use crate::report::{Report, Target};
use crate::{Args, Stage, build_folder};

/// The targets: how many times as many jobs the host runs.
const GRAPHILE_WORKER_RATIO_MIN: f64 = 2.0;
const BULLMQ_SINGLES_RATIO_MIN: f64 = 4.0;
const BULLMQ_ARRAYS_RATIO_MIN: f64 = 6.0;

/// A program that runs the load in another queue.
struct Peer {
    name: &'static str,
    program: &'static str,
    /// Where it finds its server.
    place: String,
    ratio_min: fn(Shape) -> Option<f64>,
}

pub(crate) async fn measure(args: &Args, report: &mut Report) -> Result<()> {
    if args.wants("graphile-worker") {
        graphile_worker(args, report).await?;
    }
    if args.wants("bullmq") {
        bullmq(args, report).await?;
    }
    Ok(())
}

async fn graphile_worker(args: &Args, report: &mut Report) -> Result<()> {
    let cluster = Cluster::start(&build_folder()?, &postgres::SETTINGS);
    let stage = postgres::start_host(&cluster, "bench")?;
    let peer = Peer {
        name: "graphile-worker",
        program: "graphile_worker.mjs",
        place: cluster.folder().display().to_string(),
        ratio_min: |_| Some(GRAPHILE_WORKER_RATIO_MIN),
    };
    for shape in postgres::SHAPES {
        in_turns(args, &stage, shape, std::slice::from_ref(&peer), report).await?;
    }
    stage.stop()
}

async fn bullmq(args: &Args, report: &mut Report) -> Result<()> {
    let folder = build_folder()?;
    let logged = |sync| {
        let file = ["--save", "", "--appendonly", "yes", "--appendfsync", sync];
        Redis::below(&folder, &file)
    };
    let (always, every_second) = (logged("always"), logged("everysec"));
    let peer = |name, redis: &Redis, ratio_min| Peer {
        name,
        program: "bullmq.mjs",
        place: redis.port().to_string(),
        ratio_min,
    };
    let peers = [
        peer("BullMQ, appendfsync always", &always, |shape| {
            Some(match shape.batch {
                1 => BULLMQ_SINGLES_RATIO_MIN,
                _ => BULLMQ_ARRAYS_RATIO_MIN,
            })
        }),
        peer("BullMQ, appendfsync everysec", &every_second, |_| None),
    ];
    let stage = Stage::start(&["basics"])?;
    for shape in [single(256), arrays(2_560)] {
        in_turns(args, &stage, shape, &peers, report).await?;
    }
    stage.stop()
}

/// Runs one load with each peer and with the host, round by round.
async fn in_turns(
    args: &Args,
    stage: &Stage,
    shape: Shape,
    peers: &[Peer],
    report: &mut Report,
) -> Result<()> {
    let host = format!("{}, in turns with {}", shape.name(), peers[0].name);
    let row = |peer: &Peer| {
        format!(
            "{}, {} in flight by {}",
            peer.name, shape.in_flight, shape.batch
        )
    };
    for _ in args.rounds(&host) {
        for peer in peers {
            let rate = tokio::task::block_in_place(|| peer.jobs_per_second(shape, args.seconds))?;
            report.push(&row(peer), "jobs/s", rate);
        }
        let sample = load::run(stage.address(), shape, args.span()).await?;
        report.push(&host, "jobs/s", sample.jobs_per_second);
    }
    for peer in peers {
        let ratio = format!("{}: host to {}", shape.name(), peer.name);
        let target = (peer.ratio_min)(shape).map(Target::AtLeast);
        report.ratio(&ratio, &host, &row(peer), target);
    }
    Ok(())
}

impl Peer {
    fn jobs_per_second(&self, shape: Shape, seconds: f64) -> Result<f64> {
        let mut command = Command::new("node");
        command.arg(peers::queues().join(self.program));
        command.arg(&self.place);
        command.args([shape.in_flight, shape.batch].map(|n| n.to_string()));
        let output = command
            .arg(seconds.to_string())
            .stderr(Stdio::inherit())
            .output()
            .context("cannot start node")?;
        let status = output.status;
        ensure!(status.success(), "{} ended with {status}", self.name);
        let printed: Value = serde_json::from_slice(&output.stdout).context("not JSON")?;
        printed["jobs_per_second"].as_f64().context("no rate")
    }
}
