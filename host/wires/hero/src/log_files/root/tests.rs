//! Which files are opened in the folder, and that all others are refused: bad input on a real disk.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};

use rustix::fs::{FileType, Mode, OFlags, mknodat, open};
use tempfile::TempDir;

use super::*;

struct Scene {
    folder: TempDir,
    root: LogRoot,
}

impl Scene {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let root = LogRoot::new(&folder.path().join("logs/hero"));
        root.make().unwrap();
        root.make().unwrap();
        Self { folder, root }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.root.dir.join(below)
    }

    fn why(&self, log_path: &str) -> String {
        let append = self.root.append(log_path).unwrap_err().to_string();
        let read = self.root.read(log_path).unwrap_err().to_string();
        assert_eq!(append, read, "{log_path}");
        append
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn files_below_are_made_appended_to_and_read() {
    let scene = Scene::new();
    let absolute = scene.path("a/b/job.log").display().to_string();
    for (log_path, text) in [("a/b/job.log", "one\n"), (&absolute, "two\n")] {
        let mut file = scene.root.append(log_path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }
    let mut text = String::new();
    let mut file = scene.root.read("a/b/job.log").unwrap();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "one\ntwo\n");
    assert_eq!(mode(&scene.path("a/b/job.log")), 0o600);
    for folder in ["", "a", "a/b"] {
        assert_eq!(mode(&scene.path(folder)), 0o700, "{folder}");
    }
    let gone = scene.root.read("a/other.log").unwrap_err();
    assert!(gone.to_string().contains("No such file"), "{gone}");
}

#[test]
fn what_is_not_below_is_refused() {
    let scene = Scene::new();
    for log_path in [
        "../../etc/x",
        "../x",
        "a/../../x",
        "/etc/passwd",
        "/dev/null",
        "/dev/stdout",
        "",
        ".",
        "a//b",
        "a/./b",
        "a/",
    ] {
        assert!(scene.why(log_path).contains("not inside"), "{log_path}");
    }
    assert!(scene.why("a\u{1b}[1m").contains("control"));
    let deep = ["a"; DEPTH_MAX + 1].join("/");
    assert!(scene.why(&deep).contains("15 folders"));
    assert!(!scene.path("a").exists(), "nothing is made for it");
    let long = "x".repeat(300);
    assert!(scene.why(&long).contains("name too long"));
}

#[test]
fn links_are_followed_nowhere() {
    let scene = Scene::new();
    let outside = scene.folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("x"), "mine").unwrap();
    fs::create_dir(scene.path("real")).unwrap();
    fs::write(scene.path("real/x"), "").unwrap();
    symlink(&outside, scene.path("folder")).unwrap();
    symlink(outside.join("x"), scene.path("file")).unwrap();
    symlink(outside.join("new"), scene.path("dangling")).unwrap();
    symlink("real", scene.path("inside")).unwrap();
    symlink("real/x", scene.path("near")).unwrap();
    symlink("/proc/self/cwd", scene.path("magic")).unwrap();
    for log_path in [
        "folder/x",
        "folder/new",
        "folder/a/b",
        "file",
        "dangling",
        "inside/x",
        "inside/new",
        "near",
        "magic/x",
    ] {
        assert!(scene.root.append(log_path).is_err(), "{log_path}");
        let why = scene.root.read(log_path).unwrap_err().to_string();
        assert!(why.contains("a link"), "{log_path}: {why}");
    }
    assert_eq!(fs::read_to_string(outside.join("x")).unwrap(), "mine");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    assert_eq!(fs::read_dir(scene.path("real")).unwrap().count(), 1);
}

#[test]
fn only_regular_files_are_opened_and_nothing_is_waited_for() {
    let scene = Scene::new();
    let root = folder::open(&scene.root.dir).unwrap();
    mknodat(&root, "fifo", FileType::Fifo, Mode::RWXU, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(scene.path("socket")).unwrap();
    fs::create_dir(scene.path("folder")).unwrap();
    fs::write(scene.path("file"), "").unwrap();
    assert!(scene.why("fifo").contains("not a regular file"));
    // A FIFO with a reader is refused too.
    let _reader = open(scene.path("fifo"), OFlags::RDWR, Mode::empty()).unwrap();
    assert!(scene.why("fifo").contains("not a regular file"));
    assert!(scene.why("socket").contains("not a regular file"));
    assert!(scene.why("folder").contains("a folder"));
    assert!(scene.why("file/x").contains("not a folder"));
    let device = Mode::RWXU;
    // Only privileged users may make devices.
    if mknodat(
        &root,
        "null",
        FileType::CharacterDevice,
        device,
        rustix::fs::makedev(1, 3),
    )
    .is_ok()
    {
        assert!(scene.why("null").contains("not a regular file"));
    }
}

#[test]
fn a_folder_that_becomes_a_link_later_leads_nowhere() {
    let scene = Scene::new();
    let outside = scene.folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    let real = scene.path("a");
    std::thread::scope(|scope| {
        let swap = scope.spawn(|| {
            for n in 0..500 {
                let _ = fs::rename(&real, scene.path(&format!("kept-{n}")));
                // The folder may exist again.
                if symlink(&outside, &real).is_ok() {
                    fs::remove_file(&real).unwrap();
                }
            }
        });
        while !swap.is_finished() {
            if let Ok(mut file) = scene.root.append("a/x") {
                file.write_all(b"x").unwrap();
            }
        }
        swap.join().unwrap();
    });
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}

#[test]
fn a_folder_that_cannot_be_used_is_reported() {
    let scene = Scene::new();
    scene.root.check().unwrap();
    fs::write(scene.path("file"), "").unwrap();
    for (below, words) in [("gone", "No such file"), ("file", "Not a directory")] {
        let error = LogRoot::new(&scene.path(below)).check().unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
    let made = LogRoot::new(&scene.path("file/below")).make().unwrap_err();
    assert!(made.to_string().contains("Not a directory"), "{made}");
}
