//! The data in the wasmtime store of one run: its limits, its grants and its state.

use std::fs::File;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use host_core::cell::LogSource;
use host_core::egress::HEADERS_BYTES_MAX;
use host_core::tcp_grant::Endpoint;
use wasmtime::Result;
use wasmtime::component::{Resource, ResourceTable};
use wasmtime_wasi::filesystem::{Descriptor, Dir, WasiFilesystemCtxView};
use wasmtime_wasi::p2::bindings::filesystem::preopens;
use wasmtime_wasi::{FsPerms, OpenMode, WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};
use wasmtime_wasi_http::WasiHttpCtx;

use crate::clock::{SteppedClock, SteppedWall};
use crate::desk::Desk;
use crate::egress::Egress;
use crate::limits::{MemoryCharge, MemoryLimit};
use crate::run_output::RunOutput;
use crate::scratch::{self, OpenNode, ScratchFile};
use crate::stdio::Stdio;
use crate::stop::Stop;

/// The most random bytes that one call returns.
const RANDOM_BYTES_MAX: u64 = 64 << 10;

/// The variable that names the folder for temporary files.
const TEMPORARY: &str = "TMPDIR";

/// The most resources (streams, descriptors, pollables) that a guest may hold at a time.
const RESOURCES_MAX: usize = 1_000;

/// The files and sockets of a run.
#[derive(Debug, Default)]
pub(crate) struct GivenToRun {
    /// What has the content of the scratch directory, if the manifest gives one.
    pub(crate) scratch: Option<ScratchFile>,
    /// Directories, under the names that the guest sees.
    pub(crate) dirs: Vec<(File, String)>,
    /// The socket to the broker, or why there is none. `None` without a grant.
    pub(crate) broker: Option<Result<UnixStream, String>>,
    /// The servers that the guest may connect to, by the place of their grant.
    pub(crate) servers: Vec<Endpoint>,
    /// Whether the guest may send HTTP requests.
    pub(crate) may_request: bool,
    /// The socket to the desk, or why there is none. `None` without a grant.
    pub(crate) desk: Option<Result<UnixStream, String>>,
}

/// The state of one run that host calls use.
pub(crate) struct Guest {
    pub(crate) memory: MemoryLimit,
    pub(crate) output: Arc<RunOutput>,
    pub(crate) stop: Arc<Stop>,
    pub(crate) egress: Egress,
    http: WasiHttpCtx,
    pub(crate) desk: Desk,
    env: Vec<(String, String)>,
    /// The directories that the guest may read, under the names that it sees.
    dirs: Vec<(Dir, String)>,
    scratch: Option<OpenNode>,
    /// Created at the first WASI call, because many guests never make one.
    wasi: Option<WasiCtx>,
    table: ResourceTable,
}

impl Guest {
    /// Creates the state of a run that may use what is `given`.
    pub(crate) fn new(
        memory: MemoryLimit,
        output: Arc<RunOutput>,
        stop: Arc<Stop>,
        mut env: Vec<(String, String)>,
        given: GivenToRun,
    ) -> Self {
        let mut table = ResourceTable::new();
        table.set_max_capacity(RESOURCES_MAX);
        let dirs = given.dirs.into_iter().map(|(dir, name)| {
            let dir = Dir::new(dir, FsPerms::ReadOnly, OpenMode::READ, false);
            (dir, name)
        });
        let scratch = given.scratch.map(|file| {
            if !env.iter().any(|(name, _)| name == TEMPORARY) {
                env.push((TEMPORARY.to_owned(), scratch::PATH.to_owned()));
            }
            let names = MemoryCharge::nothing(memory.memory());
            OpenNode::root(file, names, Arc::clone(&output))
        });
        let mut http = WasiHttpCtx::new();
        // With the memory that they take. A guest that exceeds it traps, and may hold as many as resources.
        http.set_field_size_limit(HEADERS_BYTES_MAX);
        Self {
            egress: Egress::new(
                given.broker,
                given.servers,
                given.may_request,
                memory.memory(),
                Arc::clone(&output),
            ),
            http,
            memory,
            output,
            stop,
            desk: Desk::new(given.desk),
            env,
            dirs: dirs.collect(),
            scratch,
            wasi: None,
            table,
        }
    }

    /// Returns what `wasi:sockets` uses.
    pub(crate) const fn socket_parts(&mut self) -> (&mut Egress, &mut ResourceTable) {
        (&mut self.egress, &mut self.table)
    }

    /// Returns what `wasi:filesystem` uses for granted directories.
    pub(crate) fn dir_parts(&mut self) -> WasiFilesystemCtxView<'_> {
        let WasiCtxView { ctx, table } = self.ctx();
        let ctx = ctx.filesystem();
        WasiFilesystemCtxView { ctx, table }
    }

    /// Returns what `wasi:filesystem` uses for the scratch directory.
    pub(crate) const fn scratch_parts(&mut self) -> (Option<&OpenNode>, &mut ResourceTable) {
        (self.scratch.as_ref(), &mut self.table)
    }

    /// Returns what `wasi:http` uses.
    pub(crate) fn http_parts(&mut self) -> (&mut Egress, &mut WasiHttpCtx, &mut ResourceTable) {
        (&mut self.egress, &mut self.http, &mut self.table)
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

/// The WASI context itself would open directories by path.
impl preopens::Host for Guest {
    fn get_directories(&mut self) -> Result<Vec<(Resource<Descriptor>, String)>> {
        let granted = self.dirs.iter().map(|(dir, name)| {
            let dir = self.table.push(Descriptor::Dir(dir.clone()))?;
            Ok((dir, name.clone()))
        });
        let mut all = granted.collect::<Result<Vec<_>>>()?;
        if let Some(folder) = self.open_scratch()? {
            all.push((folder, scratch::PATH.to_owned()));
        }
        Ok(all)
    }
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
