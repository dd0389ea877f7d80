//! The data in the wasmtime store of one run: its limits, its grants and its state.

use std::os::fd::AsRawFd;
use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use host_core::cell::LogSource;
use host_core::handler::DirGrant;
use wasmtime::Result;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};

use crate::clock::{SteppedClock, SteppedWall};
use crate::limits::MemoryLimit;
use crate::run_output::RunOutput;
use crate::stdio::Stdio;
use crate::stop::Stop;

/// The most random bytes that one call returns.
const RANDOM_BYTES_MAX: u64 = 64 << 10;

/// The most resources (streams, descriptors, pollables) that a guest may hold at once.
const RESOURCES_MAX: usize = 1_000;

/// The state of one run that host calls can use.
pub(crate) struct Guest {
    pub(crate) memory: MemoryLimit,
    pub(crate) output: Arc<RunOutput>,
    pub(crate) stop: Arc<Stop>,
    env: Vec<(String, String)>,
    /// Created at the first WASI call, because many guests make none.
    wasi: Option<WasiCtx>,
    table: ResourceTable,
}

/// A directory that the manifest grants cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot open the directory {path}, which the manifest grants: {cause}; create it or change the grant"
)]
pub(crate) struct GrantMissing {
    path: String,
    cause: String,
}

impl Guest {
    /// Creates the state of a run and opens the directories that the guest may read.
    pub(crate) fn new(
        memory: MemoryLimit,
        output: Arc<RunOutput>,
        stop: Arc<Stop>,
        env: Vec<(String, String)>,
        read_dirs: &[DirGrant],
    ) -> Result<Self, GrantMissing> {
        let mut table = ResourceTable::new();
        table.set_max_capacity(RESOURCES_MAX);
        let mut guest = Self {
            memory,
            output,
            stop,
            env,
            wasi: None,
            table,
        };
        if !read_dirs.is_empty() {
            let mut builder = guest.builder();
            for grant in read_dirs {
                open(&mut builder, grant).map_err(|cause| GrantMissing {
                    path: grant.host.clone(),
                    cause,
                })?;
            }
            guest.wasi = Some(builder.build());
        }
        Ok(guest)
    }

    fn builder(&mut self) -> WasiCtxBuilder {
        let mut builder = WasiCtxBuilder::new();
        builder
            .envs(&std::mem::take(&mut self.env))
            .stdout(Stdio::new(&self.output, LogSource::Stdout))
            .stderr(Stdio::new(&self.output, LogSource::Stderr))
            .monotonic_clock(SteppedClock::new())
            .wall_clock(SteppedWall)
            .max_random_size(RANDOM_BYTES_MAX);
        builder
    }
}

/// Opens a directory with cap-std and passes the open descriptor to WASI, so that later changes of the
/// path have no effect.
fn open(builder: &mut WasiCtxBuilder, grant: &DirGrant) -> Result<(), String> {
    let dir = Dir::open_ambient_dir(&grant.host, ambient_authority())
        .map_err(|error| error.to_string())?;
    builder
        .preopened_dir(
            format!("/proc/self/fd/{}", dir.as_raw_fd()),
            &grant.guest,
            FsPerms::ReadOnly,
        )
        .map_err(|error| error.to_string())?;
    Ok(())
}

impl WasiView for Guest {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        if self.wasi.is_none() {
            let mut builder = self.builder();
            self.wasi = Some(builder.build());
        }
        let ctx = self
            .wasi
            .get_or_insert_with(|| WasiCtxBuilder::new().build());
        WasiCtxView {
            ctx,
            table: &mut self.table,
        }
    }
}
