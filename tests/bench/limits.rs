//! What limits cost the bare store: jobs of many customers, each with one at once, and the same jobs without a limit, in
//! turns. As many wait as jobs are enqueued before.

use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::report::{Report, Target};
use crate::store::Loop;
use crate::{Args, build_folder, numbers};

/// How many keys the limit has, and how many jobs wait.
const CUSTOMERS: u64 = 10_000;
const WAITING: usize = 100_000;
const IN_FLIGHT: usize = 256;
const RATIO_MIN: f64 = 0.7;

pub(crate) fn measure(args: &Args, report: &mut Report) -> Result<()> {
    let folder = TempDir::new_in(build_folder()?).context("cannot make a folder")?;
    let open = |name: &str| Loop::open(&folder.path().join(name));
    let (mut limited, mut free) = (open("limited.db")?, open("free.db")?);
    limited.limit_customers()?;
    for turns in [&mut limited, &mut free] {
        turns.fill(CUSTOMERS, WAITING)?;
    }
    let span = Duration::from_secs_f64(args.seconds);
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for round in 1..=args.rounds {
        eprintln!("round {round} of {}, with and without limits", args.rounds);
        with.push(limited.rate(IN_FLIGHT, span)?);
        without.push(free.rate(IN_FLIGHT, span)?);
    }
    let keys = vec![numbers::count(WAITING)];
    report.add("jobs that wait, of 10,000 customers", "jobs", keys, None);
    let (name, beside) = (
        "the bare store, one job of each customer at once",
        "the bare store, in turns with it, without limits",
    );
    report.add(name, "jobs/s", with, None);
    report.add(beside, "jobs/s", without, None);
    let target = Target::AtLeast(RATIO_MIN);
    report.ratio("with limits to without", name, beside, target);
    Ok(())
}
