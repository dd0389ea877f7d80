//! A real cell, and its components, compiled once for all tests by the real compile child.

use std::collections::HashMap;
use std::io::{IoSlice, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use host_core::cell::{
    CompileReply, Compiled, ComponentKey, Context, FromCell, HANDED_OVER_MAX, Handover, LogLine,
    RunId, Start, TimeBound, ToCell,
};
use host_core::handler::Limits;
use host_core::json::JsonText;
use host_core::outcome::{Meter, Outcome, Progress};
use parking_lot::Mutex;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use tempfile::TempDir;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_cell-under-test");

/// The descriptor of a cell's socket.
const SOCKET_FD: i32 = 3;

/// How long a test waits for one message.
const PATIENCE: Duration = Duration::from_mins(1);

/// A compiled component.
#[derive(Clone)]
pub(crate) struct Code {
    path: PathBuf,
    pub(crate) compiled: Compiled,
}

/// Compiles a component of `target/guests`, or a WAT file of `tests/guests/wat`, once.
pub(crate) fn code(name: &str) -> Code {
    static CODE: OnceLock<Mutex<HashMap<String, Code>>> = OnceLock::new();
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| TempDir::new().unwrap());
    let mut all = CODE.get_or_init(Mutex::default).lock();
    all.entry(name.to_owned())
        .or_insert_with(|| {
            let path = folder.path().join(format!("{name}.cwasm"));
            let compiled = compile(&bytes(name), &path).expect("it is a component");
            Code { path, compiled }
        })
        .clone()
}

/// Returns a component's bytes.
pub(crate) fn bytes(name: &str) -> Vec<u8> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = repository.join(format!("tests/guests/wat/{name}.wat"));
    if text.exists() {
        return wat::parse_file(&text).expect("the text is WebAssembly");
    }
    let target = Path::new(PROGRAM).parent().unwrap().parent().unwrap();
    let path = target.join("guests").join(format!("{name}.wasm"));
    std::fs::read(&path)
        .unwrap_or_else(|_| panic!("{} is missing: run `cargo xtask guests`", path.display()))
}

/// Makes `target` and the numbers after it copies of `fds` in the program that `command` starts.
fn hand(command: &mut Command, fds: Vec<OwnedFd>, target: i32) {
    // SAFETY: between fork and exec it makes only system calls.
    unsafe {
        command.pre_exec(move || {
            for (to, from) in (target..).zip(&fds) {
                let mut to = std::os::fd::FromRawFd::from_raw_fd(to);
                let duplicated = rustix::io::dup2(from, &mut to);
                std::mem::forget::<OwnedFd>(to);
                duplicated?;
            }
            Ok(())
        });
    }
}

/// Moves the descriptor to a number that no child uses otherwise.
fn high(fd: impl Into<OwnedFd>) -> OwnedFd {
    rustix::io::fcntl_dupfd_cloexec(fd.into(), 64).unwrap()
}

/// Runs the compile child.
pub(crate) fn compile(component: &[u8], output: &Path) -> CompileReply {
    let file = std::fs::File::create(output).unwrap();
    let mut command = Command::new(PROGRAM);
    command
        .args(["compile", &SOCKET_FD.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    hand(&mut command, vec![high(file)], SOCKET_FD);
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A child may stop reading early.
    let _ = stdin.write_all(component);
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "the compile child failed");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Sends open descriptors with a byte.
fn hand_over(socket: &UnixStream, group: &[OwnedFd]) {
    let fds: Vec<_> = group.iter().map(OwnedFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(HANDED_OVER_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
    let bytes = [IoSlice::new(&[0])];
    rustix::net::sendmsg(socket, &bytes, &mut control, SendFlags::empty()).unwrap();
}

/// A running cell; killed when it is dropped.
pub(crate) struct Cell {
    child: Child,
    socket: UnixStream,
    files: UnixStream,
    /// What goes to the cell with the next start, before its directories.
    given: Option<OwnedFd>,
    /// The scratch file of the next start, instead of one that is made for it.
    scratch: Option<OwnedFd>,
    received: std::collections::VecDeque<FromCell>,
    loaded: HashMap<String, ComponentKey>,
    last_run: u64,
}

/// How one run went.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) outcome: Outcome,
    pub(crate) meter: Meter,
    pub(crate) lines: Vec<LogLine>,
    pub(crate) progress: Vec<Progress>,
}

impl Cell {
    /// Starts a cell and waits until it is ready.
    pub(crate) fn start() -> Self {
        Self::with_room(64, 4_096)
    }

    /// Starts a cell with `slots` slots and `memory_mib` for all of its runs.
    pub(crate) fn with_room(slots: u32, memory_mib: u64) -> Self {
        Self::confined(slots, memory_mib, None)
    }

    /// Starts a cell whose runs may be given directories below `root`.
    pub(crate) fn that_reads(root: &Path) -> Self {
        Self::confined(64, 4_096, Some(root))
    }

    /// Starts a cell that panics with a full backtrace when something is written to the other end of
    /// `trigger`.
    pub(crate) fn that_panics(trigger: OwnedFd) -> Self {
        let mut command = Command::new(PROGRAM);
        command
            .args(["panic", &SOCKET_FD.to_string()])
            .args(["64", "4096", "0"])
            .env("RUST_BACKTRACE", "full")
            .stderr(Stdio::piped());
        Self::launch(command, 64, Some(high(trigger)))
    }

    fn confined(slots: u32, memory_mib: u64, root: Option<&Path>) -> Self {
        let root = root.map(|root| high(std::fs::File::open(root).unwrap()));
        let mut command = Command::new(PROGRAM);
        command
            .args(["run", &SOCKET_FD.to_string()])
            .args([slots.to_string(), memory_mib.to_string()])
            .arg(root.iter().count().to_string())
            .env_clear();
        Self::launch(command, slots, root)
    }

    /// Starts a cell that gets this descriptor beside its socket.
    fn launch(mut command: Command, slots: u32, more: Option<OwnedFd>) -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        command.stdin(Stdio::null());
        let fds = std::iter::once(high(theirs)).chain(more).collect();
        hand(&mut command, fds, SOCKET_FD);
        let child = command.spawn().unwrap();
        // The descriptors of the cell are closed here.
        drop(command);
        ours.set_read_timeout(Some(PATIENCE)).unwrap();
        let (files, taken) = UnixStream::pair().unwrap();
        hand_over(&ours, &[taken.into()]);
        let mut cell = Self {
            child,
            socket: ours,
            files,
            given: None,
            scratch: None,
            received: std::collections::VecDeque::new(),
            loaded: HashMap::new(),
            last_run: 0,
        };
        assert_eq!(cell.receive(), FromCell::Ready { slots });
        cell
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the end and returns what it wrote to standard error.
    pub(crate) fn last_words(mut self) -> (std::process::ExitStatus, String) {
        let mut words = String::new();
        let mut stderr = self.child.stderr.take().unwrap();
        stderr.read_to_string(&mut words).unwrap();
        (self.child.wait().unwrap(), words)
    }

    /// Closes the socket and returns how the process ends.
    pub(crate) fn hang_up(mut self) -> Option<i32> {
        self.socket.shutdown(std::net::Shutdown::Both).unwrap();
        self.child.wait().unwrap().code()
    }

    /// Hands over a socket to the broker with the next start.
    pub(crate) fn give(&mut self, socket: OwnedFd) {
        self.given = Some(socket);
    }

    /// Hands over this scratch file with the next start that has one.
    pub(crate) fn give_scratch(&mut self, file: OwnedFd) {
        self.scratch = Some(file);
    }

    pub(crate) fn send(&mut self, message: &ToCell) {
        let paths: Vec<&Path> = match message {
            ToCell::Load { path, .. } => vec![path],
            ToCell::Start(start) => {
                let comes = start
                    .read_dirs
                    .iter()
                    .filter(|given| given.dir == Handover::Comes);
                comes.map(|given| Path::new(&given.grant.host)).collect()
            }
            _ => Vec::new(),
        };
        let open = |path| OwnedFd::from(std::fs::File::open(path).unwrap());
        let given = match message {
            ToCell::Start(_) => self.given.take(),
            _ => None,
        };
        let handover = match message {
            ToCell::Start(start) => start.scratch.as_ref(),
            _ => None,
        };
        let comes = handover.filter(|scratch| **scratch == Handover::Comes);
        let made = comes.map(|_| OwnedFd::from(tempfile::tempfile().unwrap()));
        let scratch_file = made.map(|made| self.scratch.take().unwrap_or(made));
        let group: Vec<OwnedFd> = given
            .into_iter()
            .chain(scratch_file)
            .chain(paths.into_iter().map(open))
            .collect();
        let payload = postcard::to_stdvec(message).unwrap();
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let frame = [&length[..], &payload].concat();
        if !group.is_empty() {
            hand_over(&self.files, &group);
        }
        self.socket.write_all(&frame).unwrap();
    }

    pub(crate) fn receive(&mut self) -> FromCell {
        while self.received.is_empty() {
            let mut length = [0; 4];
            self.socket
                .read_exact(&mut length)
                .expect("the cell sends something");
            let mut frame = vec![0; u32::from_be_bytes(length) as usize];
            self.socket.read_exact(&mut frame).unwrap();
            let mut rest = &frame[..];
            while !rest.is_empty() {
                let (message, after) = postcard::take_from_bytes(rest).unwrap();
                self.received.push_back(message);
                rest = after;
            }
        }
        self.received.pop_front().unwrap()
    }

    /// Loads a component, once.
    pub(crate) fn load(&mut self, component: &str) -> ComponentKey {
        if let Some(key) = self.loaded.get(component) {
            return *key;
        }
        let key = ComponentKey(self.loaded.len() as u64);
        let code = code(component);
        self.send(&ToCell::Load {
            component: key,
            path: code.path,
            sha256: code.compiled.sha256,
            file: Handover::Comes,
        });
        self.loaded.insert(component.to_owned(), key);
        key
    }

    /// Makes the start of a run of `component/handler`.
    pub(crate) fn prepare(&mut self, handler: &str, params: &str, limits: Limits) -> Start {
        let (component, handler) = handler.split_once('/').unwrap();
        self.last_run += 1;
        Start {
            run: RunId(self.last_run),
            component: self.load(component),
            context: context(handler),
            params: JsonText(params.to_owned()),
            limits,
            time_bound: TimeBound::Handler,
            env: Vec::new(),
            http: None,
            desk: None,
            scratch: None,
            read_dirs: Vec::new(),
        }
    }

    /// Starts a run of `component/handler`.
    pub(crate) fn begin(&mut self, handler: &str, params: &str, limits: Limits) -> RunId {
        let start = self.prepare(handler, params, limits);
        let run = start.run;
        self.send(&ToCell::Start(Box::new(start)));
        run
    }

    /// Starts a prepared run and waits for its end.
    pub(crate) fn finish(&mut self, start: Start) -> Ran {
        let run = start.run;
        self.send(&ToCell::Start(Box::new(start)));
        self.wait_for_end(run)
    }

    /// Asks a run to stop.
    pub(crate) fn stop(&mut self, run: RunId, grace_ms: u64) {
        let reason = "enough".to_owned();
        self.send(&ToCell::Stop {
            run,
            grace_ms,
            reason,
        });
    }

    /// Receives until all of `runs` have ended. Returns them in the order of their ends.
    pub(crate) fn all_ended(&mut self, runs: &[RunId]) -> Vec<(RunId, Ran)> {
        let mut ended = Vec::new();
        let mut output: HashMap<RunId, (Vec<LogLine>, Vec<Progress>)> = HashMap::new();
        while ended.len() < runs.len() {
            match self.receive() {
                FromCell::Log { run, lines } => output.entry(run).or_default().0.extend(lines),
                FromCell::Progress { run, progress } => {
                    output.entry(run).or_default().1.push(progress);
                }
                FromCell::Ended {
                    run,
                    outcome,
                    meter,
                } => {
                    assert!(runs.contains(&run), "{run:?} ended twice or never began");
                    let (lines, progress) = output.remove(&run).unwrap_or_default();
                    ended.push((
                        run,
                        Ran {
                            outcome,
                            meter,
                            lines,
                            progress,
                        },
                    ));
                }
                FromCell::Used { .. } => {}
                other => panic!("unexpected: {other:?}"),
            }
        }
        ended
    }

    /// Receives until `run` has ended.
    pub(crate) fn wait_for_end(&mut self, run: RunId) -> Ran {
        self.all_ended(&[run]).remove(0).1
    }

    /// Runs `component/handler` to its end.
    pub(crate) fn run(&mut self, handler: &str, params: &str, limits: Limits) -> Ran {
        let run = self.begin(handler, params, limits);
        self.wait_for_end(run)
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns how much memory of a process is resident, in KiB.
pub(crate) fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn context(handler: &str) -> Context {
    Context {
        job_id: "019a-job".to_owned(),
        request_id: "019a-job/1".to_owned(),
        handler: handler.to_owned(),
        queue: "default".to_owned(),
        protocol: "http".to_owned(),
        attempt: 1,
        max_attempts: Some(5),
        enqueued_at: "2030-01-01T00:00:00.000Z".to_owned(),
        deadline: None,
        worker_id: Some("cell-1".to_owned()),
        trace: Vec::new(),
        attributes: Vec::new(),
    }
}
