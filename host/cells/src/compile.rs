//! Compiles components in a child process and keeps the results in the cache folder. A file's name
//! contains the component's digest and the engine's hash. A note beside each file holds the file's
//! own hash, sealed with a key that is not in the folder. A file without a sealed note is ignored.

pub mod schema;
mod seal;
pub mod vet;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use host_core::cell::{CompileFlaw, CompileReply, Compiled};
use host_core::json::JsonText;
use host_engine::component::Digest;
use host_runtime::ids;
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use self::seal::{Seal, Sealer};
use self::vet::{SchemaFlaw, vet};
use crate::sandbox::child::{CellProgram, Child, Order};

/// How long the child process may compile. The child also limits its own computation.
const COMPILE_TIMEOUT: Duration = Duration::from_mins(5);

/// The CPU time of the child, in seconds.
pub const CPU_SECONDS_MAX: u64 = 120;

/// The address space of the child, in bytes.
pub const MEMORY_BYTES_MAX: u64 = 1 << 30;

/// The longest reply of the child process, in bytes.
const REPLY_BYTES_MAX: u64 = 64 << 10;

/// How much of the child's standard error is shown, in bytes.
const STDERR_BYTES_MAX: u64 = 4 << 10;

/// How much of a compiled file is read at a time to hash it, in bytes.
const CHUNK_BYTES: usize = 256 << 10;

/// How old an unused file must be before it is removed. Another process may be about to use a newer
/// one.
const SWEPT_AGE: Duration = Duration::from_hours(1);

/// The same for files of other engines, because a worker of another version may still use them.
const SWEPT_AGE_OTHER: Duration = Duration::from_hours(30 * 24);

/// How much room compiled components may take by default, in bytes.
pub const CACHE_BYTES_MAX: u64 = 16 << 30;

/// Why a component was not compiled.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CompileError {
    #[error(transparent)]
    Refused(CompileFlaw),
    /// The child process failed: it reached a limit, or the system had an error.
    #[error("the component cannot be compiled: {message}")]
    Broken {
        /// How the child process failed.
        message: String,
    },
    /// The folder has no room for another compiled component.
    #[error(
        "compiled components take {} MiB in the folder {}, more than limits.cache_mib ({} MiB); you may \
         remove files there: components are compiled again when needed",
        .bytes >> 20, last_name(.folder), .bytes_max >> 20
    )]
    CacheFull {
        folder: PathBuf,
        bytes: u64,
        bytes_max: u64,
    },
    #[error("compiled components: cannot {operation} {}: {message}; check the folder and its disk", last_name(.path))]
    Cache {
        operation: &'static str,
        path: PathBuf,
        message: String,
    },
}

/// Returns the last name of a path: clients see these errors, which must not reveal the host's folders.
fn last_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

impl CompileError {
    /// Returns whether the same component may compile later.
    pub const fn may_pass(&self) -> bool {
        !matches!(self, Self::Refused(_))
    }
}

/// The prefix of the folders that children write in.
const PRIVATE: &str = "compile-";

/// A folder of compiled components.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
    program: CellProgram,
    sealer: Sealer,
    /// The most bytes the folder may have before another component is compiled.
    bytes_max: u64,
}

/// The note beside a compiled file.
#[derive(Serialize, Deserialize)]
struct Note {
    compiled: Compiled,
    /// Proves that this host, or one with the same key, compiled it.
    seal: Seal,
}

impl Cache {
    /// Uses `folder`, and the key beside it. Creates both if they do not exist.
    pub fn open(
        folder: PathBuf,
        program: CellProgram,
        bytes_max: u64,
    ) -> Result<Self, CompileError> {
        // A program that can write here could make cells execute any code.
        make_folder(&folder)
            .and_then(|()| is_ours_alone(&folder))
            .map_err(cache("use the folder", &folder))?;
        let key = seal::path_beside(&folder);
        let sealer = Sealer::beside(&folder).map_err(cache("use the key", &key))?;
        Ok(Self {
            folder,
            program,
            sealer,
            bytes_max,
        })
    }

    /// Returns the path of the compiled component and what is known of it. Returns `None` if the
    /// component is not in the cache or was compiled for another engine. A file that is damaged, or that
    /// no host with this key compiled, is set aside.
    pub async fn get(&self, digest: Digest) -> Option<(PathBuf, Compiled)> {
        let cache = self.clone();
        let found = tokio::task::spawn_blocking(move || cache.find(digest));
        found.await.ok().flatten()
    }

    fn find(&self, digest: Digest) -> Option<(PathBuf, Compiled)> {
        let note = fs::read(self.note(digest)).ok()?;
        let Some(compiled) = self.vouched(digest, &note) else {
            let note = self.note(digest);
            tracing::warn!(path = %note.display(), "compiled file has no valid seal; compiling the component again");
            let _ = fs::remove_file(note);
            return None;
        };
        let file = self.file(digest, &compiled);
        let found = hash(&file).ok()?;
        if found == compiled.sha256 {
            return Some((file, compiled));
        }
        let path = file.display();
        tracing::warn!(%path, "compiled component is damaged; file set aside");
        self.set_aside(digest, &file);
        None
    }

    /// Reads a note that a host with this key has written about this component and engine.
    fn vouched(&self, digest: Digest, note: &[u8]) -> Option<Compiled> {
        let Note { compiled, seal } = serde_json::from_slice(note).ok()?;
        let text = serde_json::to_vec(&compiled).ok()?;
        let is_vouched = self.sealer.holds(&seal, &self.stem(digest), &text);
        is_vouched.then_some(compiled)
    }

    fn sealed(&self, digest: Digest, compiled: &Compiled) -> serde_json::Result<Vec<u8>> {
        let text = serde_json::to_vec(compiled)?;
        let seal = self.sealer.seal(&self.stem(digest), &text);
        let compiled = compiled.clone();
        serde_json::to_vec(&Note { compiled, seal })
    }

    /// Gives a damaged file another name. If that fails, compiling replaces it.
    fn set_aside(&self, digest: Digest, file: &Path) {
        let aside = self.folder.join(format!("{}.damaged", self.stem(digest)));
        let _ = fs::rename(file, aside);
        let _ = fs::remove_file(self.note(digest));
    }

    /// Compiles a component and keeps the result.
    ///
    /// Several processes may use the same folder and compile the same component: the last one
    /// writes the final note, and the file of every note exists.
    ///
    /// Cancel safe: the child process is killed and its unfinished output is ignored.
    pub async fn compile(
        &self,
        digest: Digest,
        component: &[u8],
    ) -> Result<(PathBuf, Compiled), CompileError> {
        self.check_room()
            .map_err(cache("look at", &self.folder))??;
        let note = self.note(digest);
        // No other process knows the file until it is whole.
        let own = Private::make(&self.folder).map_err(cache("make a folder in", &self.folder))?;
        let made = own.path.join("made.cwasm");
        let compiled = self.run(&made, component).await?;
        let (found, bytes) = measure(made.clone())
            .await
            .map_err(cache("look at", &made))?;
        if (found, bytes) != (compiled.sha256, compiled.bytes) {
            let message = format!(
                "the child wrote {bytes} bytes but reported {}",
                compiled.bytes
            );
            return Err(CompileError::Broken { message });
        }
        let text = self
            .sealed(digest, &compiled)
            .map_err(|error| CompileError::Broken {
                message: error.to_string(),
            })?;
        // A cell may have mapped an older file. That file stays as it is, because the new one has
        // another name.
        let file = self.file(digest, &compiled);
        fs::rename(&made, &file).map_err(cache("write", &file))?;
        let half = Unfinished(note.with_extension(format!("{}.half", ids::unique())));
        fs::write(&half.0, text).map_err(cache("write", &half.0))?;
        fs::rename(&half.0, &note).map_err(cache("write", &note))?;
        Ok((file, compiled))
    }

    /// Checks that the folder has room for another file.
    fn check_room(&self) -> io::Result<Result<(), CompileError>> {
        let mut bytes: u64 = 0;
        for entry in fs::read_dir(&self.folder)? {
            // Another process may have removed it.
            bytes += entry?.metadata().map_or(0, |found| found.len());
        }
        if bytes < self.bytes_max {
            return Ok(Ok(()));
        }
        Ok(Err(CompileError::CacheFull {
            folder: self.folder.clone(),
            bytes,
            bytes_max: self.bytes_max,
        }))
    }

    /// Compiles schemas in a limited process, unless they have passed before.
    pub(crate) async fn vet(&self, schemas: &[&JsonText]) -> Result<(), SchemaFlaw> {
        vet(&self.program, &self.folder, &self.sealer, schemas).await
    }

    /// Removes files of components that are not in `used`, old files of other engines, and
    /// unfinished files. Returns how many were removed. All of them can be compiled again.
    pub fn sweep(&self, used: &BTreeSet<Digest>) -> io::Result<usize> {
        let used: BTreeSet<String> = used.iter().map(Digest::to_string).collect();
        let mut swept = self.sweep_private()?;
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let needed = name.to_str().and_then(|name| self.needed(name, &used));
            let Some(needed_for) = needed else { continue };
            let found = entry.metadata()?;
            let age = found.modified()?.elapsed().unwrap_or_default();
            if age > needed_for {
                fs::remove_file(entry.path())?;
                swept += 1;
            }
        }
        Ok(swept)
    }

    /// Removes the folders of processes that ended while they compiled. Returns how many there were.
    fn sweep_private(&self) -> io::Result<usize> {
        let sweeps = File::open(&self.folder)?;
        sweeps.lock()?;
        let mut swept = 0;
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let is_private = entry.file_name().to_string_lossy().starts_with(PRIVATE);
            if is_private && entry.file_type()?.is_dir() {
                let folder = File::open(entry.path())?;
                if folder.try_lock().is_ok() {
                    fs::remove_dir_all(entry.path())?;
                    swept += 1;
                }
            }
        }
        Ok(swept)
    }

    /// Returns the age at which a file may be removed. `None` means that the file stays: it is in
    /// use, or this cache did not write it.
    fn needed(&self, name: &str, used: &BTreeSet<String>) -> Option<Duration> {
        let (digest, rest) = name.split_once('-')?;
        if digest.len() != 64 || !digest.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        if rest.ends_with(".schemas") {
            return Some(SWEPT_AGE_OTHER);
        }
        if !used.contains(digest) {
            return Some(SWEPT_AGE);
        }
        match rest.strip_prefix(self.program.engine_hash.as_str()) {
            None => Some(SWEPT_AGE_OTHER),
            // The file is a note or has its final name.
            Some(".json") => None,
            Some(rest) if rest.starts_with('-') => None,
            Some(_) => Some(SWEPT_AGE),
        }
    }

    fn stem(&self, digest: Digest) -> String {
        format!("{digest}-{}", self.program.engine_hash)
    }

    fn note(&self, digest: Digest) -> PathBuf {
        self.folder.join(format!("{}.json", self.stem(digest)))
    }

    /// Names a compiled file after its content.
    fn file(&self, digest: Digest, compiled: &Compiled) -> PathBuf {
        let content = Digest(compiled.sha256).to_string();
        let stem = self.stem(digest);
        self.folder.join(format!("{stem}-{}.cwasm", &content[..16]))
    }

    /// Starts the child, which writes to `file` and to nothing else.
    fn start(&self, file: &Path) -> io::Result<Child> {
        let mut options = fs::File::options();
        let file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(file)?;
        let mut words = ["cell", "compile", "--fd=3"].map(str::to_owned).to_vec();
        if self.program.quick {
            words.push("--quick".to_owned());
        }
        let order = Order {
            words: &words,
            handed: vec![file.into()],
            has_pipes: true,
            ..Order::default()
        };
        Child::start(&self.program, order)
    }

    async fn run(&self, file: &Path, component: &[u8]) -> Result<Compiled, CompileError> {
        let broken = |message: String| CompileError::Broken { message };
        let mut child = self
            .start(file)
            .map_err(|error| broken(format!("cannot start the process that compiles: {error}")))?;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(mut stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
            return Err(broken("the child has no pipes".to_owned()));
        };
        let feed = async move {
            // A child that refuses early stops reading.
            // A compiler that refuses does not read to the end; its answer says why.
            let _ = stdin.write_all(component).await;
        };
        let (mut reply, mut errors) = (Vec::new(), Vec::new());
        let (mut stdout, mut stderr) =
            (stdout.take(REPLY_BYTES_MAX), stderr.take(STDERR_BYTES_MAX));
        let work = async {
            let (read, _, ()) = tokio::join!(
                stdout.read_to_end(&mut reply),
                stderr.read_to_end(&mut errors),
                feed
            );
            read.and(child.wait().await)
        };
        let status = tokio::time::timeout(COMPILE_TIMEOUT, work)
            .await
            .map_err(|_| {
                let limit = COMPILE_TIMEOUT.as_secs();
                broken(format!("the child took longer than {limit} s"))
            })?
            .map_err(|error| broken(format!("cannot read from the child: {error}")))?;
        match serde_json::from_slice::<CompileReply>(&reply) {
            Ok(Ok(compiled)) if status.success() => Ok(compiled),
            Ok(Err(refusal)) => Err(CompileError::Refused(refusal)),
            _ => Err(broken(without_reply(status, &errors))),
        }
    }
}

/// Explains why a child may have ended without a reply. The kernel kills one that reaches a limit.
fn without_reply(status: ExitStatus, errors: &[u8]) -> String {
    let stderr = String::from_utf8_lossy(errors);
    match stderr.trim() {
        "" => format!(
            "the child ended with {status}; its limits are {CPU_SECONDS_MAX} s of CPU and {} MiB of memory",
            MEMORY_BYTES_MAX >> 20
        ),
        stderr => format!("the child ended with {status}: {stderr}"),
    }
}

fn make_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(folder)
}

/// Refuses a folder in which another user could put files.
fn is_ours_alone(folder: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(folder)?;
    let refused = if !found.is_dir() {
        "not a folder; use a path without symbolic links".to_owned()
    } else if found.uid() != geteuid().as_raw() {
        format!("owned by user {}, not by this user", found.uid())
    } else if found.mode() & 0o077 != 0 {
        let mode = found.mode() & 0o777;
        format!("mode {mode:o} lets other users in; run `chmod 700` on it")
    } else {
        return Ok(());
    };
    Err(io::Error::new(io::ErrorKind::PermissionDenied, refused))
}

/// Returns the hash and the length of a file. Does not follow a link.
async fn measure(file: PathBuf) -> io::Result<([u8; 32], u64)> {
    let measured = tokio::task::spawn_blocking(move || {
        let found = fs::symlink_metadata(&file)?;
        if !found.is_file() {
            return Err(io::Error::other("not a file"));
        }
        Ok((hash(&file)?, found.len()))
    });
    measured
        .await
        .unwrap_or_else(|error| Err(io::Error::other(error)))
}

fn hash(file: &Path) -> io::Result<[u8; 32]> {
    let mut hasher = Sha256::new();
    let mut file = fs::File::open(file)?;
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(hasher.finalize().into()),
            bytes => hasher.update(&chunk[..bytes]),
        }
    }
}

/// A file that is removed on drop unless it has been renamed.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        // A finished file has another name by now.
        let _ = fs::remove_file(&self.0);
    }
}

/// A folder that this process alone writes in. Its lock tells sweeps so. Removed on drop.
struct Private {
    path: PathBuf,
    _lock: File,
}

impl Private {
    fn make(cache: &Path) -> io::Result<Self> {
        let path = cache.join(format!("{PRIVATE}{}", ids::unique()));
        // No sweep finds the folder before it is locked.
        let sweeps = File::open(cache)?;
        sweeps.lock_shared()?;
        make_folder(&path)?;
        let lock = File::open(&path)?;
        lock.lock()?;
        Ok(Self { path, _lock: lock })
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        // A later sweep removes what is left.
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn cache<'a>(operation: &'static str, path: &'a Path) -> impl Fn(io::Error) -> CompileError + 'a {
    move |error| CompileError::Cache {
        operation,
        path: path.to_owned(),
        message: error.to_string(),
    }
}

#[cfg(test)]
mod tests;
