//! Control groups of version 2 for cells, where one is delegated to this process: limits on memory, processes
//! and CPU that the kernel keeps, and one stroke that kills all of a cell. Without one, cells run as they are.

use std::fs;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use host_runtime::ids;
use parking_lot::Mutex;
use rustix::fs::{Access, access};
use rustix::process::{geteuid, getpid};
use thiserror::Error;

use crate::sandbox::room::Room;

/// The controllers that limit cells.
const CONTROLLERS: [&str; 3] = ["memory", "pids", "cpu"];

/// The group of this process below the delegated one: a group with groups below it holds no process.
const HOST: &str = "host";

/// How the names of the groups of cells begin.
const CELL: &str = "cell-";

/// The memory of a cell beyond that of its guests: its code, its tables and what it reads, in MiB.
const SPARE_MIB: u64 = 256;

/// The threads of a cell beyond one for each run.
const SPARE_THREADS: u32 = 64;

/// The share of CPU of one cell. The host itself has 100, the default.
const WEIGHT: u32 = 20;

/// What systemd notes at a group that it has delegated.
const DELEGATED: [&str; 2] = ["user.delegate", "trusted.delegate"];

/// Why cells have no groups.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct NotDelegated(pub String);

/// A group that this process may divide, and has not divided yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delegated {
    folder: PathBuf,
    /// Which controllers may be used.
    pub controllers: Vec<&'static str>,
}

/// Looks for a group that is delegated to this process alone. Changes nothing.
pub fn find() -> Result<Delegated, NotDelegated> {
    let read = |path: &str| {
        fs::read_to_string(path)
            .map_err(|error| NotDelegated(format!("cannot read {path}: {error}")))
    };
    let folder = locate(&read("/proc/self/cgroup")?, &read("/proc/self/mountinfo")?)?;
    let process = getpid().as_raw_nonzero().get();
    // Root may write everywhere, so that alone says nothing.
    look(&folder, process, geteuid().is_root())
}

/// Returns the folder of this process's group.
fn locate(groups: &str, mounts: &str) -> Result<PathBuf, NotDelegated> {
    let mut groups = groups.lines();
    let own = groups
        .find_map(|line| line.strip_prefix("0::/"))
        .ok_or_else(|| NotDelegated("the kernel has no cgroup v2".to_owned()))?;
    let mount = mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let is_v2 = after.split(' ').next() == Some("cgroup2");
        let mut fields = before.split(' ').skip(3);
        let (root, place) = (fields.next()?, fields.next()?);
        (is_v2 && root == "/").then_some(place)
    });
    let mount = mount.ok_or_else(|| NotDelegated("cgroup v2 is not mounted".to_owned()))?;
    if own.is_empty() || own.split('/').any(|part| part == "..") {
        return Err(NotDelegated(
            "this process is in no group of its own; with systemd, set Delegate=yes".to_owned(),
        ));
    }
    Ok(Path::new(mount).join(own))
}

/// Judges a group by its files.
fn look(folder: &Path, process: i32, needs_note: bool) -> Result<Delegated, NotDelegated> {
    let refused = |what: &str| {
        let folder = folder.display();
        Err(NotDelegated(format!(
            "{folder} {what}; with systemd, set Delegate=yes"
        )))
    };
    let file = |name: &str| folder.join(name);
    let writable = ["", "cgroup.procs", "cgroup.subtree_control"]
        .iter()
        .all(|name| access(file(name), Access::WRITE_OK).is_ok());
    if !writable {
        return refused("is not delegated to this user");
    }
    if needs_note && !DELEGATED.iter().any(|name| is_set(folder, name)) {
        return refused("is not marked as delegated");
    }
    let Ok(processes) = fs::read_to_string(file("cgroup.procs")) else {
        return refused("cannot be read");
    };
    if processes.lines().any(|line| line != process.to_string()) {
        return refused("has other processes too");
    }
    let offered = fs::read_to_string(file("cgroup.controllers")).unwrap_or_default();
    let offered: Vec<_> = offered.split_ascii_whitespace().collect();
    let mut controllers = CONTROLLERS.to_vec();
    controllers.retain(|name| offered.contains(name));
    Ok(Delegated {
        folder: folder.to_owned(),
        controllers,
    })
}

fn is_set(folder: &Path, name: &str) -> bool {
    let mut value = [0_u8; 8];
    let read = rustix::fs::getxattr(folder, name, &mut value);
    read.is_ok_and(|length| value.get(..length) == Some(b"1"))
}

impl Delegated {
    /// Moves this process into a group below, so that those of cells can stand beside it.
    pub fn divide(self) -> Result<Groups, NotDelegated> {
        let Self {
            folder,
            controllers,
        } = self;
        let divided = || {
            let own = folder.join(HOST);
            make(&own)?;
            write(
                &own.join("cgroup.procs"),
                &getpid().as_raw_nonzero().to_string(),
            )?;
            for name in &controllers {
                write(&folder.join("cgroup.subtree_control"), &format!("+{name}"))?;
            }
            remove_empty(&folder)
        };
        divided().map_err(|error| {
            let folder = folder.display();
            NotDelegated(format!("{folder} cannot be divided: {error}"))
        })?;
        Ok(Groups {
            folder: Arc::new(folder),
            controllers: controllers.into(),
            left: Arc::default(),
        })
    }
}

/// Where cells get their groups. Clones share it.
#[derive(Clone, Debug)]
pub struct Groups {
    folder: Arc<PathBuf>,
    controllers: Arc<[&'static str]>,
    /// Groups of killed cells that could not be removed yet.
    left: Arc<Mutex<Vec<PathBuf>>>,
}

impl Groups {
    /// Returns what limits cells: names of controllers.
    pub fn controllers(&self) -> &[&'static str] {
        &self.controllers
    }

    /// Makes the group of one cell.
    pub(crate) fn open(&self, room: Room) -> io::Result<Group> {
        self.left().retain(|folder| fs::remove_dir(folder).is_err());
        let folder = self.folder.join(format!("{CELL}{}", ids::unique()));
        make(&folder)?;
        let group = Group {
            folder,
            groups: self.clone(),
        };
        self.fill(&group.folder, room)?;
        Ok(group)
    }

    /// Writes the limits of a cell to the files of its group.
    fn fill(&self, folder: &Path, room: Room) -> io::Result<()> {
        self.limits(room)
            .into_iter()
            .try_for_each(|(file, value)| write(&folder.join(file), &value))
    }

    /// Returns what is written to which file.
    fn limits(&self, room: Room) -> Vec<(&'static str, String)> {
        let limit = |name: &&str| match *name {
            "memory" => {
                let bytes = (room.memory_mib + SPARE_MIB) << 20;
                ("memory.max", bytes.to_string())
            }
            "pids" => {
                let threads = room.slots.saturating_add(SPARE_THREADS);
                ("pids.max", threads.to_string())
            }
            _ => ("cpu.weight", WEIGHT.to_string()),
        };
        self.controllers.iter().map(limit).collect()
    }

    fn left(&self) -> parking_lot::MutexGuard<'_, Vec<PathBuf>> {
        self.left.lock()
    }
}

/// The group of one cell. All processes in it are killed, and it is removed, when this is dropped.
#[derive(Debug)]
pub(crate) struct Group {
    folder: PathBuf,
    groups: Groups,
}

impl Group {
    /// Takes any folder for a group without limits.
    #[cfg(test)]
    pub(crate) fn of_folder(folder: PathBuf) -> Self {
        let groups = Groups {
            folder: Arc::new(folder.clone()),
            controllers: Arc::new([]),
            left: Arc::default(),
        };
        Self { folder, groups }
    }

    /// Opens the file through which a process enters the group, by writing `0` to it.
    pub(crate) fn door(&self) -> io::Result<OwnedFd> {
        let path = self.folder.join("cgroup.procs");
        Ok(fs::File::options().write(true).open(path)?.into())
    }

    /// Kills all processes of the group. Linux before 5.14 cannot.
    pub(crate) fn kill(&self) {
        let _best_effort = write(&self.folder.join("cgroup.kill"), "1");
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
        if fs::remove_dir(&self.folder).is_err() {
            self.groups.left().push(self.folder.clone());
        }
    }
}

/// Removes the groups of cells of a host that was killed. Those in which a process still ends remain.
fn remove_empty(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let is_cell = entry.file_name().to_str().is_some_and(|name| {
            let unique = name.strip_prefix(CELL);
            unique.is_some_and(|unique| unique.len() == 32)
        });
        if is_cell {
            let _busy = fs::remove_dir(entry.path());
        }
    }
    Ok(())
}

fn make(folder: &Path) -> io::Result<()> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Writes to a file of the kernel, which takes a value in one piece.
fn write(path: &Path, value: &str) -> io::Result<()> {
    let named = |error: io::Error| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        io::Error::new(error.kind(), format!("{name}: {error}"))
    };
    let mut file = fs::File::options().write(true).open(path).map_err(named)?;
    file.write_all(value.as_bytes()).map_err(named)
}

#[cfg(test)]
mod tests;
