//! The cache: what is reused, refused and compiled again.

use std::fs::{File, FileTimes};
use std::os::unix::process::ExitStatusExt as _;
use std::time::UNIX_EPOCH;

use tempfile::TempDir;

use super::*;
use crate::sandbox::child::Confinement;
use crate::sandbox::child::tests::write_script;

/// Opens a cache that compiles nothing.
fn open_cache(folder: &TempDir) -> Cache {
    let program = CellProgram {
        exe: PathBuf::from("host"),
        engine_hash: "abc".to_owned(),
        quick: false,
        confinement: Confinement::default(),
    };
    Cache::open(folder.path().join("cache"), program, CACHE_BYTES_MAX).unwrap()
}

#[test]
fn what_nobody_needs_is_swept_once_it_is_old() {
    let folder = TempDir::new().unwrap();
    let cache = open_cache(&folder);
    let (used, unused) = (Digest([1; 32]), Digest([2; 32]));
    let old = [
        (format!("{used}-abc.json"), true),
        (format!("{used}-abc-0123456789abcdef.cwasm"), true),
        (format!("{used}-abc.17.cwasm"), false),
        (format!("{used}-other.json"), false),
        (format!("{unused}-abc.json"), false),
        (format!("{unused}-abc-0123456789abcdef.cwasm"), false),
        ("notes.txt".to_owned(), true),
    ];
    let put = |name: &str| File::create(folder.path().join("cache").join(name)).unwrap();
    for (name, _) in &old {
        let long_ago = FileTimes::new().set_modified(UNIX_EPOCH);
        put(name).set_times(long_ago).unwrap();
    }
    let young = format!("{unused}-abc-fedcba9876543210.cwasm");
    put(&young);
    assert_eq!(cache.sweep(&BTreeSet::from([used])).unwrap(), 4);
    for (name, stays) in &old {
        assert_eq!(cache.folder.join(name).exists(), *stays, "{name}");
    }
    assert!(cache.folder.join(young).exists());
}

#[test]
fn folders_of_ended_compiles_are_swept_and_those_of_others_stay() {
    let folder = TempDir::new().unwrap();
    let cache = open_cache(&folder);
    let left = cache.folder.join("compile-left");
    fs::create_dir(&left).unwrap();
    File::create(left.join("made.cwasm")).unwrap();
    let own = Private::make(&cache.folder).unwrap();
    assert_eq!(cache.sweep(&BTreeSet::new()).unwrap(), 1);
    assert!(!left.exists() && own.path.exists());
}

#[test]
fn folders_that_others_may_use_are_refused() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let folder = TempDir::new().unwrap();
    let program = || CellProgram {
        exe: PathBuf::from("host"),
        engine_hash: "abc".to_owned(),
        quick: false,
        confinement: Confinement::default(),
    };
    let cache = folder.path().join("cache");
    assert!(Cache::open(cache.clone(), program(), CACHE_BYTES_MAX).is_ok());
    for mode in [0o770, 0o705, 0o777] {
        fs::set_permissions(&cache, fs::Permissions::from_mode(mode)).unwrap();
        let refused = Cache::open(cache.clone(), program(), CACHE_BYTES_MAX).unwrap_err();
        assert!(refused.to_string().contains("chmod 700"), "{refused}");
    }
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o700)).unwrap();
    let link = folder.path().join("link");
    symlink(&cache, &link).unwrap();
    assert!(Cache::open(link, program(), CACHE_BYTES_MAX).is_err());
    if geteuid().is_root() {
        std::os::unix::fs::chown(&cache, Some(1), None).unwrap();
        let refused = Cache::open(cache, program(), CACHE_BYTES_MAX).unwrap_err();
        assert!(refused.to_string().contains("owned by user 1"), "{refused}");
    }
}

#[tokio::test]
async fn a_full_cache_compiles_nothing_more() {
    let folder = TempDir::new().unwrap();
    let program = CellProgram {
        exe: PathBuf::from("/nowhere/host"),
        engine_hash: "abc".to_owned(),
        quick: false,
        confinement: Confinement::default(),
    };
    let cache = Cache::open(folder.path().join("cache"), program, 100).unwrap();
    let compile = async || cache.compile(Digest([1; 32]), b"").await.unwrap_err();
    fs::write(cache.folder.join("a.cwasm"), [0; 99]).unwrap();
    assert!(matches!(compile().await, CompileError::Broken { .. }));
    fs::write(cache.folder.join("b.cwasm"), [0; 1]).unwrap();
    let full = compile().await;
    assert!(full.to_string().contains("limits.cache_mib"), "{full}");
    fs::remove_dir_all(&cache.folder).unwrap();
    let missing = compile().await;
    assert!(matches!(missing, CompileError::Cache { .. }), "{missing:?}");
    let whole = folder.path().display().to_string();
    for error in [full, missing] {
        assert!(!error.to_string().contains(&whole), "{error}");
    }
}

/// Forgeries by a process that can write in the folder but does not know the key.
#[tokio::test]
async fn notes_that_no_host_has_sealed_are_not_believed() {
    let home = TempDir::new().unwrap();
    let program = || CellProgram {
        exe: PathBuf::from("host"),
        engine_hash: "abc".to_owned(),
        quick: false,
        confinement: Confinement::default(),
    };
    let open =
        |name: &str| Cache::open(home.path().join(name), program(), CACHE_BYTES_MAX).unwrap();
    let (cache, other) = (open("cache"), open("other"));
    let (ours, theirs) = (Digest([1; 32]), Digest([2; 32]));
    let put = |code: &[u8]| {
        let compiled = Compiled {
            sha256: Sha256::digest(code).into(),
            bytes: code.len() as u64,
            stubbed: Vec::new(),
        };
        fs::write(cache.file(ours, &compiled), code).unwrap();
        compiled
    };
    let compiled = put(b"code");
    let good = cache.sealed(ours, &compiled).unwrap();
    fs::write(cache.note(ours), &good).unwrap();
    assert_eq!(cache.get(ours).await.unwrap().1, compiled);

    let evil = put(b"evil");
    let Note { seal, .. } = serde_json::from_slice(&good).unwrap();
    let with_seal = |seal| {
        let compiled = evil.clone();
        serde_json::to_vec(&Note { compiled, seal }).unwrap()
    };
    for (what, note) in [
        ("no seal", serde_json::to_vec(&evil).unwrap()),
        ("the seal of another file", with_seal(seal)),
        ("no real seal", with_seal([0; 32])),
        ("another component", cache.sealed(theirs, &evil).unwrap()),
        ("another key", other.sealed(ours, &evil).unwrap()),
    ] {
        fs::write(cache.note(ours), note).unwrap();
        assert!(cache.get(ours).await.is_none(), "{what}");
        assert!(!cache.note(ours).exists(), "{what}: it is gone");
    }
}

/// A compromised child reports a file that it did not write.
#[tokio::test]
async fn the_host_believes_no_child_about_its_file() {
    let folder = TempDir::new().unwrap();
    let reply = serde_json::to_string(&CompileReply::Ok(Compiled {
        sha256: [7; 32],
        bytes: 5,
        stubbed: Vec::new(),
    }))
    .unwrap();
    for (name, work) in [("other", "echo else >&3"), ("nothing", "true")] {
        let script = format!("#!/bin/sh\n{work}\necho '{reply}'\n");
        let cache = of_script(&folder, name, &script);
        let refused = cache.compile(Digest([1; 32]), b"").await.unwrap_err();
        assert!(!matches!(refused, CompileError::Refused(_)), "{refused}");
        assert!(cache.get(Digest([1; 32])).await.is_none());
        let left = fs::read_dir(&cache.folder).unwrap().count();
        assert_eq!(left, 0, "{name}: nothing of it stays");
    }
}

/// Opens a cache whose children run a script.
fn of_script(folder: &TempDir, name: &str, script: &str) -> Cache {
    let exe = folder.path().join(format!("{name}.sh"));
    write_script(&exe, script);
    let program = CellProgram {
        exe,
        engine_hash: "abc".to_owned(),
        quick: false,
        confinement: Confinement::default(),
    };
    Cache::open(folder.path().join(name), program, CACHE_BYTES_MAX).unwrap()
}

/// The child refuses all schemas, so one that passes does so by its note.
#[tokio::test]
async fn notes_about_schemas_that_no_host_has_sealed_are_not_believed() {
    const PASSED: &[u8] = b"passed";
    let home = TempDir::new().unwrap();
    let script = "cat >/dev/null; echo '{\"Err\":[0,\"no\"]}'";
    let cache = of_script(&home, "cache", script);
    let other = of_script(&home, "other", script);
    let schema = JsonText("{}".to_owned());
    let schemas = [&schema];
    let digest = Digest(Sha256::digest(serde_json::to_vec(&schemas).unwrap()).into());
    let name = format!("{digest}-abc.schemas");
    let another = format!("{}-abc.schemas", Digest([1; 32]));
    let no = Err(SchemaFlaw::One(0, "no".to_owned()));
    assert_eq!(cache.vet(&schemas).await, no, "no note");
    for (what, note) in [
        ("its text", PASSED.to_vec()),
        ("no real seal", vec![0; 32]),
        ("another key", other.sealer.seal(&name, PASSED).to_vec()),
        (
            "other schemas",
            cache.sealer.seal(&another, PASSED).to_vec(),
        ),
        ("another text", cache.sealer.seal(&name, b"").to_vec()),
    ] {
        fs::write(cache.folder.join(&name), note).unwrap();
        assert_eq!(cache.vet(&schemas).await, no, "{what}");
    }
    let seal = cache.sealer.seal(&name, PASSED);
    fs::write(cache.folder.join(&name), seal).unwrap();
    assert_eq!(cache.vet(&schemas).await, Ok(()));
}

#[tokio::test]
async fn a_killed_child_is_reported_with_its_limits() {
    let home = TempDir::new().unwrap();
    let compile = async |name: &str, script: &str| {
        let cache = of_script(&home, name, script);
        let broken = cache.compile(Digest([1; 32]), b"").await.unwrap_err();
        assert!(matches!(broken, CompileError::Broken { .. }), "{broken}");
        broken.to_string()
    };
    // A script cannot kill itself if it is the first process of a namespace, but the report is the same.
    let silent = compile("silent", "exit 9").await;
    for part in ["exit status: 9", "120 s of CPU", "1024 MiB of memory"] {
        assert!(silent.contains(part), "{silent}");
    }
    let loud = compile("loud", "echo 'the disk is full' >&2; exit 9").await;
    assert!(loud.ends_with("exit status: 9: the disk is full"), "{loud}");
    let killed = without_reply(ExitStatus::from_raw(libc::SIGKILL), b"");
    assert!(killed.contains("SIGKILL"), "{killed}");
    assert!(killed.contains("120 s of CPU"), "{killed}");
}
