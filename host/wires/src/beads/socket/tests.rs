//! The path before, during and after.

use std::os::unix::fs::symlink;
use std::sync::Mutex;

use rustix::fs::{Gid, Uid, chown};
use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;
use tokio::time::timeout;

use super::*;

const BOUND: Duration = Duration::from_mins(1);

#[derive(Default)]
struct Counts(Mutex<Vec<&'static str>>);

impl Counters for Counts {
    fn refused(&self, _: &'static str, code: &'static str) {
        self.0.lock().unwrap().push(code);
    }
}

fn place() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("b.sock");
    (folder, path)
}

/// Leaves an unused socket behind.
fn stale(path: &Path) {
    drop(StdListener::bind(path).unwrap());
    assert!(path.exists());
}

#[tokio::test]
async fn only_its_owner_may_use_it_and_it_disappears_at_the_end() {
    let (_folder, path) = place();
    let bound = Bound::at(&path).unwrap();
    let mode = std::fs::symlink_metadata(&path).unwrap().mode();
    assert_eq!(mode & 0o7777, 0o600);
    drop(bound);
    assert!(!path.exists());
}

/// File system events show every mode that the socket's file ever has.
#[tokio::test]
async fn nobody_ever_sees_it_with_another_mode() {
    use rustix::fs::inotify;
    let (folder, path) = place();
    let watch = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
    let flags =
        inotify::WatchFlags::CREATE | inotify::WatchFlags::ATTRIB | inotify::WatchFlags::MOVED_TO;
    inotify::add_watch(&watch, folder.path(), flags).unwrap();
    let _bound = Bound::at(&path).unwrap();
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4_096];
    let mut events = inotify::Reader::new(watch, &mut buffer);
    let first = events.next().unwrap();
    assert!(first.events().contains(inotify::ReadFlags::CREATE));
    assert_eq!(first.file_name().unwrap().to_str(), Ok("b.sock"));
    assert!(events.next().is_err(), "its mode is never changed");
}

#[tokio::test]
async fn a_dead_socket_is_replaced() {
    let (_folder, path) = place();
    stale(&path);
    let _bound = Bound::at(&path).unwrap();
    assert!(StdStream::connect(&path).is_ok());
}

#[tokio::test]
async fn what_is_not_a_dead_socket_of_ours_is_refused_by_name() {
    let (folder, path) = place();
    let refused = |says: &str| {
        let error = Bound::at(&path).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
        assert!(error.contains(path.to_str().unwrap()), "{error}");
    };
    std::fs::write(&path, "a file").unwrap();
    refused("not a socket");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "a file");
    std::fs::remove_file(&path).unwrap();

    symlink(folder.path().join("nowhere"), &path).unwrap();
    refused("symbolic link");
    let other = folder.path().join("other.sock");
    stale(&other);
    std::fs::remove_file(&path).unwrap();
    symlink(&other, &path).unwrap();
    refused("symbolic link");
    std::fs::remove_file(&path).unwrap();

    let live = Bound::at(&path).unwrap();
    refused("another orchestrator listens");
    assert!(path.exists());
    drop(live);

    if geteuid().is_root() {
        stale(&path);
        chown(&path, Some(Uid::from_raw(65_534)), None::<Gid>).unwrap();
        refused("belongs to the user 65534");
        assert!(path.exists());
    }
}

#[tokio::test]
async fn a_path_that_cannot_be_used_is_named() {
    let (folder, _) = place();
    for path in [
        folder.path().join("no/such/b.sock"),
        folder.path().join("x".repeat(200)),
    ] {
        let error = Bound::at(&path).unwrap_err().to_string();
        assert!(error.contains(path.to_str().unwrap()), "{error}");
        assert!(error.contains("--beads-socket"), "{error}");
    }
}

#[tokio::test]
async fn a_process_of_another_user_is_refused() {
    let (_folder, path) = place();
    let counts = Arc::new(Counts::default());
    let mut guarded = Bound::at(&path)
        .unwrap()
        .listen(Arc::<Counts>::clone(&counts));
    guarded.uid += 1;
    let mut peer = UnixStream::connect(&path).await.unwrap();
    let ended = async {
        tokio::select! {
            accepted = guarded.accept() => panic!("{accepted:?} is accepted"),
            read = peer.read_u8() => assert!(read.is_err()),
        }
    };
    timeout(BOUND, ended).await.unwrap();
    assert_eq!(*counts.0.lock().unwrap(), ["E_PEER"]);
    guarded.uid -= 1;
    let _peer = UnixStream::connect(&path).await.unwrap();
    timeout(BOUND, guarded.accept()).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_socket_that_somebody_removes_is_made_again() {
    let (_folder, path) = place();
    let mut guarded = Bound::at(&path)
        .unwrap()
        .listen(Arc::new(Counts::default()));
    std::fs::remove_file(&path).unwrap();
    assert!(UnixStream::connect(&path).await.is_err());
    guarded.watch();
    let _peer = UnixStream::connect(&path).await.unwrap();
    let accepted = timeout(BOUND, guarded.accept()).await.unwrap();
    accepted.unwrap();
    let mode = std::fs::symlink_metadata(&path).unwrap().mode();
    assert_eq!(mode & 0o7777, 0o600);
    // A foreign file in its place is left alone, even at the end.
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "a file").unwrap();
    guarded.watch();
    assert!(guarded.is_displaced);
    drop(guarded);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "a file");
}
