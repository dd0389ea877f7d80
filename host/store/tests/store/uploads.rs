//! The conformance suite, continued: uploads, and the files that jobs read.

use host_core::artifact::{Artifact, FileSource, InputFile, NewArtifact, UPLOAD, UPLOAD_MS};
use host_core::id::JobId;
use host_core::job::NewJob;
use host_core::time::Time;
use host_engine::artifact::{
    ArtifactRefusal, KeepUpload, RemoveUploads, UNUSED_UPLOAD_MS, Upload, UploadUsage,
};
use host_engine::job::{Enqueue, Purge};
use host_engine::{Command, Rejection, Store};
use uuid::Uuid;

use crate::cases::check;
use crate::jobs::{NOW, ask, commit, id, job, returned};
use crate::writes::{end, start};

const QUOTA: u64 = 100;

fn upload(n: u128) -> Uuid {
    Uuid::from_u128(2_000 + n)
}

fn keep(n: u128, owner: &str, bytes: u64) -> Command {
    let artifact = Artifact {
        name: UPLOAD.to_owned(),
        content_type: "text/csv".to_owned(),
        bytes,
        sha256: [7; 32],
        file: Uuid::from_u128(3_000 + n),
    };
    let content = Some(vec![b'x'; usize::try_from(bytes).unwrap()]);
    Command::from(KeepUpload {
        upload: Upload {
            id: upload(n),
            owner: owner.to_owned(),
            at: NOW,
            bytes,
        },
        artifact: Box::new(NewArtifact { artifact, content }),
        quota_bytes: QUOTA,
    })
}

fn reading(n: u128, source: FileSource) -> NewJob {
    let name = "a".to_owned();
    NewJob {
        files: vec![InputFile { name, source }],
        ..job(n)
    }
}

fn enqueue(store: &mut dyn Store, now: Time, new: NewJob) -> Result<(), Rejection> {
    ask(store, now, Command::from(Enqueue(vec![new]))).map(drop)
}

fn usage(store: &dyn Store, owner: &str) -> Option<(u64, u64)> {
    let reader = store.reader().unwrap();
    let usage = reader.get::<UploadUsage>(owner).unwrap();
    usage.map(|it| (it.uploads, it.bytes))
}

#[test]
fn an_upload_counts_for_its_principal_until_it_is_removed() {
    check(|store| {
        commit(
            store,
            NOW,
            vec![keep(1, "a", 60), keep(2, "a", 40), keep(3, "b", 100)],
        );
        assert_eq!(usage(store, "a"), Some((2, 100)));
        let full = ArtifactRefusal::Full {
            bytes: 101,
            quota_bytes: QUOTA,
        };
        assert_eq!(ask(store, NOW, keep(4, "a", 1)), Err(full.into()));
        let reader = store.reader().unwrap();
        let content = |n| reader.artifact_content(JobId(upload(n)), UPLOAD).unwrap();
        assert_eq!(content(1), Some(vec![b'x'; 60]));
        assert_eq!(content(4), None);
        assert_eq!(reader.artifact_files().unwrap().len(), 3);
        drop(reader);
        let remove = RemoveUploads(vec![upload(1), upload(3), upload(9)]);
        commit(store, NOW, vec![Command::from(remove)]);
        assert_eq!(
            (usage(store, "a"), usage(store, "b")),
            (Some((1, 40)), None)
        );
        let reader = store.reader().unwrap();
        let content = |n| reader.artifact_content(JobId(upload(n)), UPLOAD).unwrap();
        assert_eq!((content(1), content(2)), (None, Some(vec![b'x'; 40])));
        assert_eq!(reader.artifact_files().unwrap().len(), 1);
    });
}

#[test]
fn an_upload_is_kept_as_long_as_a_job_reads_it_and_a_day_without() {
    check(|store| {
        commit(store, NOW, vec![keep(1, "", 1), keep(2, "", 1)]);
        let last = NOW.plus_ms(UPLOAD_MS - 1);
        enqueue(store, last, reading(1, FileSource::Upload(upload(1)))).unwrap();
        let late = enqueue(
            store,
            NOW.plus_ms(UPLOAD_MS),
            reading(2, FileSource::Upload(upload(1))),
        );
        let unknown = |n| Err(ArtifactRefusal::UnknownUpload(upload(n)).into());
        assert_eq!(late, unknown(1));
        assert_eq!(
            enqueue(store, NOW, reading(3, FileSource::Upload(upload(9)))),
            unknown(9)
        );
        let unused = |store: &dyn Store, ms| {
            let reader = store.reader().unwrap();
            reader.unused_uploads(NOW.plus_ms(ms)).unwrap()
        };
        assert!(unused(store, UNUSED_UPLOAD_MS - 1).is_empty());
        assert_eq!(unused(store, UNUSED_UPLOAD_MS), [upload(2)]);
        let reader = store.reader().unwrap();
        let file = reader.input_file(id(1), "a").unwrap().unwrap();
        assert_eq!(file.source, FileSource::Upload(upload(1)));
        assert_eq!(reader.input_files(id(1)).unwrap(), [file]);
        drop(reader);
        let cancel = host_engine::job::Cancel {
            job: id(1),
            reason: None,
            grace_ms: Some(0),
        };
        commit(store, NOW, vec![Command::from(cancel)]);
        commit(store, NOW, vec![Command::from(Purge { job: id(1) })]);
        assert_eq!(unused(store, UNUSED_UPLOAD_MS), [upload(1), upload(2)]);
    });
}

#[test]
fn an_upload_is_read_by_jobs_of_its_principal() {
    check(|store| {
        commit(store, NOW, vec![keep(1, "other", 1)]);
        let refused = enqueue(store, NOW, reading(1, FileSource::Upload(upload(1))));
        assert_eq!(
            refused,
            Err(ArtifactRefusal::UnknownUpload(upload(1)).into())
        );
    });
}

#[test]
fn an_artifact_of_a_job_that_was_there_is_read_only_by_those_who_may() {
    check(|store| {
        start(store, 1);
        commit(
            store,
            NOW,
            vec![end(1, returned(), host_core::writes::Writes::default())],
        );
        let after_1 = |n| NewJob {
            depends_on: vec![id(1)],
            ..reading(n, FileSource::Artifact(id(1), "rows.csv".to_owned()))
        };
        assert_eq!(
            enqueue(store, NOW, after_1(2)),
            Err(ArtifactRefusal::Hidden(id(1)).into())
        );
        let mut allowed = after_1(3);
        allowed.conditions.get_or_insert_default().reads_others = true;
        enqueue(store, NOW, allowed).unwrap();
        // Jobs of one command know each other.
        let both = vec![
            job(4),
            NewJob {
                depends_on: vec![id(4)],
                ..reading(5, FileSource::Artifact(id(4), "rows.csv".to_owned()))
            },
        ];
        ask(store, NOW, Command::from(Enqueue(both))).unwrap();
        let reader = store.reader().unwrap();
        let source = |n| reader.input_file(id(n), "a").unwrap().unwrap().source;
        assert_eq!(
            source(5),
            FileSource::Artifact(id(4), "rows.csv".to_owned())
        );
        assert_eq!(
            source(3),
            FileSource::Artifact(id(1), "rows.csv".to_owned())
        );
    });
}
