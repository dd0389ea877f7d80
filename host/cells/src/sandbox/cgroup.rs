//! Control groups (v2) for cells, if one is delegated to this process: the kernel limits memory, processes
//! and CPU, and kills a cell as a whole. Cells also run without them.

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

use crate::sandbox::room::CellCapacity;

/// The controllers that limit cells.
const CONTROLLERS: [&str; 3] = ["memory", "pids", "cpu"];

/// This process's own group below the delegated one: a group with subgroups cannot hold processes.
const HOST: &str = "host";

/// The prefix of the names of cells' groups.
const CELL: &str = "cell-";

/// The memory of a cell beyond that of its guests: its code, its tables and what it reads, in MiB.
const SPARE_MIB: u64 = 256;

/// The threads of a cell beyond one for each run.
const SPARE_THREADS: u32 = 64;

/// The share of CPU of one cell. The host itself has 100, the default.
const WEIGHT: u32 = 20;

/// The attribute that systemd sets on a delegated group.
const DELEGATED: [&str; 2] = ["user.delegate", "trusted.delegate"];

/// Why cells have no groups.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct NotDelegated(pub String);

/// A delegated group that this process has not divided yet.
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
    // Root may write everywhere, so write access proves nothing.
    inspect(&folder, process, geteuid().is_root())
}

/// Returns the folder of this process's group.
fn locate(groups: &str, mounts: &str) -> Result<PathBuf, NotDelegated> {
    let mut groups = groups.lines();
    let own = groups
        .find_map(|line| line.strip_prefix("0::/"))
        .ok_or_else(|| NotDelegated("the kernel has no cgroup v2".to_owned()))?;
    let mount = mounts
        .lines()
        .find_map(|line| {
            let (before, after) = line.split_once(" - ")?;
            let is_v2 = after.split(' ').next() == Some("cgroup2");
            let mut fields = before.split(' ').skip(3);
            let (root, place) = (fields.next()?, fields.next()?);
            (is_v2 && root == "/").then_some(place)
        })
        .ok_or_else(|| NotDelegated("cgroup v2 is not mounted".to_owned()))?;
    if own.is_empty() || own.split('/').any(|part| part == "..") {
        return Err(NotDelegated(
            "this process has no group of its own; with systemd, set Delegate=yes".to_owned(),
        ));
    }
    Ok(Path::new(mount).join(own))
}

/// Checks whether the group can be used.
fn inspect(folder: &Path, process: i32, needs_note: bool) -> Result<Delegated, NotDelegated> {
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
    let text = fs::read_to_string(file("cgroup.controllers")).unwrap_or_default();
    let offered: Vec<_> = text.split_ascii_whitespace().collect();
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
    /// Moves this process into a subgroup, beside those of the cells.
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
            NotDelegated(format!("cannot divide {folder}: {error}"))
        })?;
        Ok(Groups {
            folder: Arc::new(folder),
            controllers: controllers.into(),
            left: Arc::default(),
        })
    }
}

/// The parent of cells' groups. Clones share it.
#[derive(Clone, Debug)]
pub struct Groups {
    folder: Arc<PathBuf>,
    controllers: Arc<[&'static str]>,
    /// Groups of killed cells that could not be removed yet.
    left: Arc<Mutex<Vec<PathBuf>>>,
}

impl Groups {
    /// Returns the names of the controllers that limit cells.
    pub fn controllers(&self) -> &[&'static str] {
        &self.controllers
    }

    /// Makes the group of one cell.
    pub(crate) fn open(&self, room: CellCapacity) -> io::Result<Group> {
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
    fn fill(&self, folder: &Path, room: CellCapacity) -> io::Result<()> {
        self.limits(room)
            .into_iter()
            .try_for_each(|(file, value)| write(&folder.join(file), &value))
    }

    /// Returns the files and their contents.
    fn limits(&self, room: CellCapacity) -> Vec<(&'static str, String)> {
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
    /// Treats any folder as a group without limits.
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
        let _ = write(&self.folder.join("cgroup.kill"), "1");
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

/// Removes cells' groups that a killed host left behind, except those with a process that is still ending.
fn remove_empty(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let is_cell = entry.file_name().to_str().is_some_and(|name| {
            let unique = name.strip_prefix(CELL);
            unique.is_some_and(|unique| unique.len() == 32)
        });
        if is_cell {
            // A folder with live processes stays.
            let _ = fs::remove_dir(entry.path());
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

/// Writes to a kernel file, which accepts a value only in one write.
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
