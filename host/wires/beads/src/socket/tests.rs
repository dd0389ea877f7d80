//! Who may connect, and what becomes of the path.

use std::path::PathBuf;
use std::sync::Mutex;

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

fn guarded() -> (TempDir, PathBuf, Guarded, Arc<Counts>) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("b.sock");
    let counts = Arc::new(Counts::default());
    let guarded = Guarded::new(bind(&path).unwrap(), Arc::<Counts>::clone(&counts));
    (folder, path, guarded, counts)
}

#[test]
fn a_path_that_cannot_be_used_is_named_with_what_to_do() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, "a file").unwrap();
    let message = bind(&path).unwrap_err().message;
    for part in [path.to_str().unwrap(), "not a socket", "--beads-socket"] {
        assert!(message.contains(part), "{message}");
    }
}

#[tokio::test]
async fn a_process_of_another_user_is_refused() {
    let (_folder, path, mut guarded, counts) = guarded();
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
    let _stream = UnixStream::connect(&path).await.unwrap();
    timeout(BOUND, guarded.accept()).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_socket_that_is_removed_is_made_again() {
    let (_folder, path, mut guarded, _) = guarded();
    std::fs::remove_file(&path).unwrap();
    assert!(UnixStream::connect(&path).await.is_err());
    guarded.watch();
    let _stream = UnixStream::connect(&path).await.unwrap();
    let accepted = timeout(BOUND, guarded.accept()).await.unwrap();
    accepted.unwrap();
    // A foreign file in its place is left alone.
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "a file").unwrap();
    guarded.watch();
    assert!(guarded.is_displaced);
}
