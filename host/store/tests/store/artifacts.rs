//! The conformance suite, continued: the artifacts that an attempt leaves.

use host_core::artifact::{Artifact, NewArtifact};
use host_core::job::State;
use host_core::writes::Writes;
use host_engine::job::Purge;
use host_engine::{Command, StoreError};
use host_engine::{Heartbeat as _, Store};
use host_store::copy::{to_postgres, to_sqlite};
use host_store::postgres::PostgresStore;
use host_store::postgres::target::Target;
use host_store::sqlite::{SqliteStore, open_reader};
use tempfile::TempDir;
use uuid::Uuid;

use crate::cases::check;
use crate::jobs::{NODE, NOW, commit, failed, id, job, returned};
use crate::postgres::TESTED;
use crate::server::Schema;
use crate::writes::{end, start};

fn file(n: u128) -> Uuid {
    Uuid::from_u128(1_000 + n)
}

fn artifact(name: &str, n: u128, bytes: u64) -> Artifact {
    Artifact {
        name: name.to_owned(),
        content_type: "text/csv".to_owned(),
        bytes,
        sha256: [7; 32],
        file: file(n),
    }
}

fn in_file(name: &str, n: u128, bytes: u64) -> NewArtifact {
    NewArtifact {
        artifact: artifact(name, n, bytes),
        content: None,
    }
}

pub(crate) fn in_row(name: &str, n: u128, content: &str) -> NewArtifact {
    NewArtifact {
        artifact: artifact(name, n, content.len() as u64),
        content: Some(content.into()),
    }
}

fn writes(artifacts: Vec<NewArtifact>) -> Writes {
    Writes {
        artifacts,
        ..Writes::default()
    }
}

fn names(store: &dyn Store, n: u128) -> Vec<String> {
    let artifacts = store.reader().unwrap().artifacts(id(n)).unwrap();
    artifacts.into_iter().map(|it| it.name).collect()
}

#[test]
fn artifacts_of_a_completed_attempt_are_committed_with_its_end_and_purged_with_the_job() {
    check(|store| {
        start(store, 1);
        start(store, 2);
        let of_1 = vec![
            in_file("b", 1, 9),
            in_row("A", 2, "one"),
            in_row("_", 3, ""),
        ];
        let of_2 = vec![in_row("A", 4, "two")];
        let ends = vec![
            end(1, returned(), writes(of_1)),
            end(2, returned(), writes(of_2)),
        ];
        commit(store, NOW, ends);
        assert_eq!(names(store, 1), ["A", "_", "b"]);
        let reader = store.reader().unwrap();
        let found = reader.artifact(id(1), "b").unwrap();
        assert_eq!(found, Some(artifact("b", 1, 9)));
        assert_eq!(reader.artifact(id(1), "c").unwrap(), None);
        let content = |n, name| reader.artifact_content(id(n), name).unwrap();
        assert_eq!(content(1, "A"), Some(b"one".to_vec()));
        assert_eq!(content(1, "_"), Some(Vec::new()));
        assert_eq!(content(1, "b"), None);
        let files = reader.artifact_files().unwrap();
        assert_eq!(files, [1, 2, 3, 4].map(file).into());
        drop(reader);

        commit(store, NOW, vec![Command::from(Purge { job: id(1) })]);
        assert_eq!(names(store, 1), [""; 0]);
        assert_eq!(names(store, 2), ["A"]);
        let reader = store.reader().unwrap();
        assert_eq!(reader.artifact_content(id(1), "A").unwrap(), None);
        assert_eq!(reader.artifact_files().unwrap(), [file(4)].into());
    });
}

#[test]
fn an_attempt_that_does_not_complete_leaves_no_artifact() {
    check(|store| {
        start(store, 1);
        let of_failed = writes(vec![in_row("a", 1, "x")]);
        commit(store, NOW, vec![end(1, failed(true), of_failed)]);
        assert_eq!(names(store, 1), [""; 0]);

        start(store, 2);
        let mut refused = writes(vec![in_row("a", 2, "x")]);
        let mut waiting = job(3);
        waiting.depends_on = vec![id(99)];
        refused.jobs = vec![waiting];
        commit(store, NOW, vec![end(2, returned(), refused)]);
        let reader = store.reader().unwrap();
        assert_eq!(reader.state(id(2)).unwrap(), Some(State::Retryable));
        assert_eq!(names(store, 2), [""; 0]);
        assert!(reader.artifact_files().unwrap().is_empty());
    });
}

#[test]
fn all_files_are_found_whatever_the_number_of_jobs() {
    check(|store| {
        let mut all = Vec::new();
        for n in 1..=12 {
            start(store, n);
            let of_job = (0..100).map(|at| n * 100 + at);
            all.extend(of_job.clone().map(file));
            let artifacts = of_job.map(|at| in_file(&format!("a{at}"), at, 1));
            let end = end(n, returned(), writes(artifacts.collect()));
            commit(store, NOW, vec![end]);
        }
        let files = store.reader().unwrap().artifact_files().unwrap();
        assert_eq!(files, all.into_iter().collect());
    });
}

/// Makes a store with a job whose artifact is in a file.
fn original(folder: &TempDir, content: &str, bytes: u64) -> std::path::PathBuf {
    let path = folder.path().join("host.db");
    let mut store = SqliteStore::open(&path).unwrap();
    start(&mut store, 1);
    let artifacts = writes(vec![in_file("a", 1, bytes), in_row("b", 2, "two")]);
    commit(&mut store, NOW, vec![end(1, returned(), artifacts)]);
    let files = folder.path().join("artifacts");
    std::fs::create_dir(&files).unwrap();
    std::fs::write(files.join(file(1).to_string()), content).unwrap();
    path
}

fn copy(path: &std::path::Path, schema: &Schema) -> Result<Target, StoreError> {
    let target = Target::parse(&schema.url(), None).unwrap();
    to_postgres(path, &target, true, NODE, &mut |_| {})?;
    Ok(target)
}

#[test]
fn a_copy_to_a_database_has_the_content_of_files_and_keeps_it_on_the_way_back() {
    let (folder, schema) = (TempDir::new().unwrap(), Schema::new());
    let path = original(&folder, "one", 3);
    let target = copy(&path, &schema).unwrap();
    let both = |reader: &dyn host_engine::Reader| {
        ["a", "b"].map(|name| reader.artifact_content(id(1), name).unwrap())
    };
    let expected = ["one", "two"].map(|text| Some(text.as_bytes().to_vec()));
    let store = PostgresStore::open(&target, NODE, TESTED).unwrap();
    assert_eq!(both(&*store.reader().unwrap()), expected);
    store.heartbeat().leave().unwrap();
    drop(store);
    let back = folder.path().join("back.db");
    to_sqlite(&target, &back, &mut |_| {}).unwrap();
    let reader = open_reader(&back).unwrap();
    assert_eq!(both(&*reader), expected);
    assert_eq!(reader.artifacts(id(1)).unwrap()[0], artifact("a", 1, 3));
}

#[test]
fn a_copy_names_an_artifact_that_a_database_cannot_have() {
    for (content, bytes, words) in [
        ("x", (1 << 20) + 1, "at most 1 MiB"),
        ("x", 2, "has 1 bytes instead of 2"),
    ] {
        let (folder, schema) = (TempDir::new().unwrap(), Schema::new());
        let path = original(&folder, content, bytes);
        let refused = copy(&path, &schema).unwrap_err().to_string();
        assert!(refused.contains(words), "{refused}");
        let named = format!("a of the job {}", id(1));
        assert!(refused.contains(&named), "{refused}");
    }
}
