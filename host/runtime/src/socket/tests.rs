//! The path before, during and after.

use std::os::unix::fs::{chown, symlink};

use tempfile::TempDir;

use super::*;

/// A user that owns nothing.
const NOBODY_UID: u32 = 65_534;

fn place() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("host.sock");
    (folder, path)
}

/// Leaves an unused socket behind, as a process does that is killed.
fn stale(path: &Path) {
    drop(StdListener::bind(path).unwrap());
    assert!(path.exists());
}

#[tokio::test]
async fn only_its_owner_may_use_it_and_it_disappears_at_the_end() {
    let (_folder, path) = place();
    let listener = LocalListener::bind(&path).unwrap();
    let mode = fs::symlink_metadata(&path).unwrap().mode();
    assert_eq!(mode & 0o7777, 0o600);
    drop(listener);
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
    let _listener = LocalListener::bind(&path).unwrap();
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4_096];
    let mut events = inotify::Reader::new(watch, &mut buffer);
    let first = events.next().unwrap();
    assert!(first.events().contains(inotify::ReadFlags::CREATE));
    assert_eq!(first.file_name().unwrap().to_str(), Ok("host.sock"));
    assert!(events.next().is_err(), "its mode is never changed");
}

#[tokio::test]
async fn a_dead_socket_is_replaced() {
    let (_folder, path) = place();
    stale(&path);
    let _listener = LocalListener::bind(&path).unwrap();
    assert!(StdStream::connect(&path).is_ok());
}

#[tokio::test]
async fn what_is_not_a_dead_socket_of_ours_is_refused() {
    let (folder, path) = place();
    let refused = || LocalListener::bind(&path).unwrap_err();
    fs::write(&path, "a file").unwrap();
    assert!(matches!(refused(), SocketError::NotSocket));
    assert_eq!(fs::read_to_string(&path).unwrap(), "a file");

    let other = folder.path().join("other.sock");
    stale(&other);
    for target in [&folder.path().join("nowhere"), &other] {
        fs::remove_file(&path).unwrap();
        symlink(target, &path).unwrap();
        assert!(matches!(refused(), SocketError::NotSocket));
    }
    fs::remove_file(&path).unwrap();

    let live = LocalListener::bind(&path).unwrap();
    assert!(matches!(refused(), SocketError::InUse));
    assert!(path.exists());
    drop(live);

    // Only root can give files away.
    if geteuid().is_root() {
        stale(&path);
        chown(&path, Some(NOBODY_UID), None).unwrap();
        assert!(matches!(refused(), SocketError::OtherUser(NOBODY_UID)));
        assert!(path.exists());
    }
}

#[tokio::test]
async fn a_path_that_cannot_be_used_is_an_error() {
    let (folder, _) = place();
    for path in ["no/such/host.sock", &"x".repeat(200)] {
        let refused = LocalListener::bind(&folder.path().join(path)).unwrap_err();
        assert!(matches!(refused, SocketError::Io(_)), "{refused}");
    }
}

#[tokio::test]
async fn what_has_taken_its_place_is_left_alone() {
    let (_folder, path) = place();
    let listener = LocalListener::bind(&path).unwrap();
    assert!(listener.is_in_place().unwrap());
    fs::remove_file(&path).unwrap();
    assert!(listener.is_in_place().is_err());
    fs::write(&path, "a file").unwrap();
    assert!(!listener.is_in_place().unwrap());
    drop(listener);
    assert_eq!(fs::read_to_string(&path).unwrap(), "a file");
}
