//! What one run has in its store: its limits, its grants and what the host knows about it.

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
use crate::imports::stdio::Stdio;
use crate::limits::MemoryLimit;
use crate::said::Said;
use crate::stop::Stop;

/// The most random bytes of one call.
const RANDOM_BYTES_MAX: u64 = 64 << 10;

/// The most resources (streams, descriptors, pollables) a guest may have at once.
const RESOURCES_MAX: usize = 1_000;

/// The state of one run.
pub(crate) struct Guest {
    pub(crate) memory: MemoryLimit,
    pub(crate) said: Arc<Said>,
    pub(crate) stop: Arc<Stop>,
    env: Vec<(String, String)>,
    /// Made when a guest first asks for it: many never do.
    wasi: Option<WasiCtx>,
    table: ResourceTable,
}

/// A directory that the manifest grants is not there.
#[derive(Debug, thiserror::Error)]
#[error(
    "the directory {path}, granted by the manifest, cannot be opened: {cause}; make it or change the grant"
)]
pub(crate) struct GrantMissing {
    path: String,
    cause: String,
}

impl Guest {
    /// Prepares a guest and opens what it may read.
    pub(crate) fn new(
        memory: MemoryLimit,
        said: Arc<Said>,
        stop: Arc<Stop>,
        env: Vec<(String, String)>,
        read_dirs: &[DirGrant],
    ) -> Result<Self, GrantMissing> {
        let mut table = ResourceTable::new();
        table.set_max_capacity(RESOURCES_MAX);
        let mut guest = Self {
            memory,
            said,
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
            .stdout(Stdio::new(&self.said, LogSource::Stdout))
            .stderr(Stdio::new(&self.said, LogSource::Stderr))
            .monotonic_clock(SteppedClock::new())
            .wall_clock(SteppedWall)
            .max_random_size(RANDOM_BYTES_MAX);
        builder
    }
}

/// Opens a directory once, with cap-std, and hands that to WASI, so that what stands at the path
/// later does not matter.
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
