//! Waits until a file of a folder changes. The system says that something happened; sizes and times of
//! the files decide whether it counts.

use std::collections::BTreeMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

/// Files and folders that building writes.
const IGNORED: &[&str] = &["Cargo.lock", "__pycache__", "node_modules"];

/// How many files and folders are looked at.
const FILES_MAX: usize = 10_000;

/// How long nothing may happen until a change is over: editors write several files.
const QUIET: Duration = Duration::from_millis(100);

const EVENTS: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO);

type Files = BTreeMap<PathBuf, (u64, Option<SystemTime>)>;

/// A folder that is watched.
pub(super) struct Watch {
    top: PathBuf,
    /// The folders that builds write into, which may be below the top.
    except: Vec<PathBuf>,
    events: OwnedFd,
    seen: Files,
}

impl Watch {
    /// Watches `top` with all folders below it except hidden ones and `except`.
    pub(super) fn open(top: &Path, except: Vec<PathBuf>) -> io::Result<Self> {
        let mut watch = Self {
            top: top.to_owned(),
            except,
            events: inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?,
            seen: Files::new(),
        };
        watch.seen = watch.scan()?;
        Ok(watch)
    }

    /// Waits until files differ from what the last call saw, and nothing changes any more. Returns these files.
    pub(super) fn changed(&mut self) -> io::Result<Vec<PathBuf>> {
        loop {
            let now = self.scan()?;
            if now != self.seen {
                let before = std::mem::replace(&mut self.seen, now);
                let paths = before.keys().chain(self.seen.keys());
                let differs = |path: &&PathBuf| before.get(*path) != self.seen.get(*path);
                return Ok(paths.filter(differs).cloned().collect());
            }
            self.wait(None)?;
            while self.wait(Some(QUIET))? {}
        }
    }

    /// Waits for events and forgets them. Returns whether there were any.
    fn wait(&self, timeout: Option<Duration>) -> io::Result<bool> {
        let timeout = timeout
            .map(Timespec::try_from)
            .transpose()
            .map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut fds = [PollFd::new(&self.events, PollFlags::IN)];
        match poll(&mut fds, timeout.as_ref()) {
            Ok(0) => return Ok(false),
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut buffer = [MaybeUninit::uninit(); 4_096];
        let mut reader = inotify::Reader::new(&self.events, &mut buffer);
        loop {
            match reader.next() {
                Ok(event) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => {}
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(true),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Lists the files as they are now, and watches the folders they are in.
    fn scan(&self) -> io::Result<Files> {
        let mut files = Files::new();
        let mut folders = vec![self.top.clone()];
        while let Some(folder) = folders.pop() {
            // Before it is read, so that no file is missed.
            match inotify::add_watch(&self.events, &folder, EVENTS) {
                Ok(_) => {}
                Err(Errno::NOENT) => continue,
                Err(error) => return Err(error.into()),
            }
            for entry in std::fs::read_dir(&folder)? {
                let entry = entry?;
                let path = entry.path();
                // A file may go away while it is looked at.
                let Ok(metadata) = entry.metadata() else {
                    continue;
                };
                let file_name = entry.file_name();
                let name = file_name.to_string_lossy();
                if name.starts_with('.') || IGNORED.contains(&&*name) || self.except.contains(&path)
                {
                    continue;
                }
                if metadata.is_dir() {
                    folders.push(path);
                } else {
                    files.insert(path, (metadata.len(), metadata.modified().ok()));
                }
                if files.len() + folders.len() > FILES_MAX {
                    let message = format!("it has more than {FILES_MAX} files");
                    return Err(io::Error::other(message));
                }
            }
        }
        Ok(files)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;
    use std::time::Duration;

    use super::Watch;

    #[test]
    fn files_count_and_what_builds_write_does_not() {
        let dir = tempfile::TempDir::new().unwrap();
        let at = |path: &str| dir.path().join(path);
        std::fs::create_dir_all(at("target")).unwrap();
        std::fs::write(at("Cargo.toml"), "1").unwrap();
        let mut watch = Watch::open(dir.path(), vec![at("target")]).unwrap();
        let (sender, changes) = sync_channel(0);
        std::thread::spawn(move || {
            while watch.changed().is_ok() && sender.send(watch.seen.len()).is_ok() {}
        });
        let next = || changes.recv_timeout(Duration::from_secs(20)).unwrap();
        // None of these is a change; the last one is.
        std::fs::write(at("target/built"), "1").unwrap();
        std::fs::write(at("Cargo.lock"), "1").unwrap();
        std::fs::write(at(".swap"), "1").unwrap();
        std::fs::write(at("Cargo.toml"), "22").unwrap();
        assert_eq!(next(), 1);
        std::fs::create_dir_all(at("src/deep")).unwrap();
        std::fs::write(at("src/deep/lib.rs"), "1").unwrap();
        assert_eq!(next(), 2);
        std::fs::remove_file(at("src/deep/lib.rs")).unwrap();
        assert_eq!(next(), 1);
    }
}
