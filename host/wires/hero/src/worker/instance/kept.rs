//! The name of `host worker hero`, kept in a folder that several workers may share. No two of them
//! have the same name, and a worker that starts again gets its old name back.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use host_runtime::ids;
use host_runtime::lock::{self, DataLock, LockError};
use sha2::{Digest as _, Sha256};

use super::kept_in;
use crate::settings::HeroConfig;

/// The most workers of one user, with the same Redis and worker ids, that can keep their names.
const PLACES_MAX: usize = 256;

/// The name of a worker, locked for its exclusive use.
pub(crate) struct KeptName {
    instance: String,
    /// The lock that cells inherit, so that the name stays in use until the cells of an earlier
    /// worker are gone.
    cells: Option<File>,
    _lock: Option<DataLock>,
}

impl KeptName {
    /// Takes the first name in `state` that no other worker uses. If no name can be kept, makes one
    /// for this run only and warns: if this worker dies, its jobs are found later.
    pub(crate) async fn take(state: Option<&Path>, hero: &HeroConfig) -> Self {
        let kept = match state {
            Some(state) => Self::below(&folder(state, hero)).await,
            None => Err("neither HOME, XDG_STATE_HOME nor STATE_DIRECTORY is set".to_owned()),
        };
        kept.unwrap_or_else(|why| {
            tracing::warn!(
                why,
                "cannot keep this worker's name; if it dies, its jobs run again after 15 s, \
                 not when it starts"
            );
            Self {
                instance: ids::unique(),
                cells: None,
                _lock: None,
            }
        })
    }

    pub(crate) fn instance(&self) -> &str {
        &self.instance
    }

    /// Returns the lock that cells inherit. Only the first call returns it.
    pub(crate) fn take_cells_lock(&mut self) -> Option<File> {
        self.cells.take()
    }

    async fn below(folder: &Path) -> Result<Self, String> {
        for place in 0..PLACES_MAX {
            let folder = folder.join(place.to_string());
            let failed = |error: io::Error| format!("{}: {error}", folder.display());
            fs::create_dir_all(&folder).map_err(failed)?;
            let locked = match DataLock::take(&folder).await {
                Ok(lock) => lock::cells(&folder).await.map(|cells| (lock, cells)),
                Err(error) => Err(error),
            };
            match locked {
                Ok((lock, cells)) => {
                    return Ok(Self {
                        instance: kept_in(&folder.join("instance")).map_err(failed)?,
                        cells: Some(cells),
                        _lock: Some(lock),
                    });
                }
                Err(LockError::Taken { .. } | LockError::Orphans { .. }) => {}
                Err(error @ LockError::File { .. }) => return Err(error.to_string()),
            }
        }
        Err(format!(
            "{PLACES_MAX} workers already use {}",
            folder.display()
        ))
    }
}

/// Returns the folder of the names of workers with this Redis and these worker ids.
fn folder(state: &Path, hero: &HeroConfig) -> PathBuf {
    let who = format!("{} {}", hero.url, hero.worker_ids.join(","));
    let digest = Sha256::digest(who.as_bytes());
    let start = digest.first_chunk().copied().unwrap_or_default();
    let name = format!("{:016x}", u64::from_be_bytes(start));
    state.join("hero").join(name)
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::KeptName;
    use crate::settings::HeroConfig;
    use crate::settings::tests::parsed;

    fn config(worker_id: &str) -> HeroConfig {
        let url = "redis://:hush@127.0.0.1:6379";
        parsed(&[("url", url), ("worker_ids", worker_id)])
    }

    #[tokio::test]
    async fn names_are_kept_and_no_two_workers_have_one() {
        let state = TempDir::new().unwrap();
        let take = async |worker_id| {
            let mut name = KeptName::take(Some(state.path()), &config(worker_id)).await;
            assert!(name.take_cells_lock().is_some());
            assert!(name.take_cells_lock().is_none(), "it is given away once");
            name
        };
        let first = take("w1").await;
        let second = take("w1").await;
        let other = take("w2").await;
        let names = [&first, &second, &other].map(|name| name.instance.clone());
        assert!(names[0] != names[1] && names[1] != names[2] && names[0] != names[2]);
        drop(first);
        assert_eq!(take("w1").await.instance, names[0]);
    }

    #[tokio::test]
    async fn a_worker_without_a_folder_has_another_name_each_time() {
        let take = async || KeptName::take(None, &config("w1")).await.instance;
        assert_ne!(take().await, take().await);
    }
}
