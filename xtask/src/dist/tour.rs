//! The first page of the tour with an installed program: a host to try, a deploy and a job.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal};

use crate::cargo::{output, target_dir};

/// The last line of what a trial says to type.
const LAST: &str = "host job ls";

/// Serves with `serve`, to which options are added, and uses that host as it says, with the program in the folder `bin`.
pub(super) fn take(mut serve: Command, bin: &Path, version: &str) -> Result<()> {
    let name = bin.display().to_string();
    let printed = output(Command::new(bin.join("host")).arg("--version"))?;
    ensure!(
        printed.trim() == format!("host {version}"),
        "{name}: {printed}"
    );
    serve.args(["serve", "--trial", "--listen", "127.0.0.1:0"]);
    serve.args(["--allow-weak", "true"]);
    serve.stderr(Stdio::piped()).stdout(Stdio::null());
    serve.process_group(0);
    let child = serve.spawn();
    let mut trial = Trial(child.with_context(|| format!("cannot start the host of {name}"))?);
    let stderr = trial.0.stderr.take().context("its output is a pipe")?;
    let mut said = String::new();
    let mut lines = BufReader::new(stderr).lines();
    while !said.ends_with(&format!("\n{LAST}\n")) {
        let line = lines
            .next()
            .with_context(|| format!("{name}: it ended: {said}"))?;
        said += &line?;
        said.push('\n');
    }
    let (note, typed) = said.split_once("\n\n").context("no commands")?;
    ensure!(note.contains("This is a trial: "), "{name}: {said}");
    let component = target_dir().join("guests/basics.wasm");
    let tour = "host deploy \"$COMPONENT\" && host job enqueue echo --params '{\"a\": 1}' --wait";
    let path = std::env::var("PATH").unwrap_or_default();
    let printed = output(
        Command::new("sh")
            .args(["-euc", &format!("{typed}\n{tour}")])
            .current_dir(bin)
            .env("PATH", format!("{name}:{path}"))
            .env("COMPONENT", component),
    )?;
    ensure!(printed.contains("\"a\": 1"), "{name}: {printed}");
    Ok(())
}

/// A host in a process group, which is killed when this is dropped.
struct Trial(Child);

impl Drop for Trial {
    fn drop(&mut self) {
        // A wrapper that is killed alone leaves its host behind. They may have ended already.
        let _ = rustix::process::kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}
