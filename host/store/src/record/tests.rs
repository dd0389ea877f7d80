//! A decoded record equals the encoded one, whichever fields it has.

use host_core::egress::HttpErrorKind;
use host_core::failure::{Failure, FailureKind};
use host_core::id::{BatchId, JobId, LeaseId, NodeId};
use host_core::job::{Cancel, KeyOfJob, Lifecycle, LimitKey, LimitsOfJob, State};
use host_core::lease::{Hold, Lease};
use host_core::notify::{DeliveryHistory, Event, Notify, Receiver};
use host_core::outcome::{Attempt, Meter, WorkerReport};
use host_core::policy::Policy;
use host_core::prerequisite::{Conditions, When};
use host_core::requests::{RequestEnd, RequestReport, RequestTarget, Requests};
use host_core::suspicion::Suspicion;
use host_core::time::Time;
use uuid::Uuid;

use super::*;

fn lifecycle() -> Lifecycle {
    Lifecycle {
        id: JobId(Uuid::from_u128(1)),
        state: State::Running,
        queue: "q".parse().unwrap(),
        handler: "h".parse().unwrap(),
        executor: Some("r".parse().unwrap()),
        priority: 5,
        // The goldens have these jobs.
        policy: Policy {
            max_attempts: 5,
            ..Policy::default()
        },
        enqueued_at: Time(1),
        run_at: None,
        deadline: Some(Time(2)),
        prerequisites_open: 0,
        attempt: 3,
        attempts_uncharged: 1,
        attempts_forgiven: 0,
        ran_ms: 9,
        lease_epoch: 3,
        lease: Some(Lease {
            id: LeaseId(Uuid::from_u128(2)),
            node: NodeId(Uuid::from_u128(3)),
            worker: "w".to_owned(),
            hold: Hold::Ttl { ttl_ms: 7 },
            granted_at: Time(3),
            expires_at: Some(Time(4)),
            ack_by: None,
            ends_by: None,
            logged: 0,
        }),
        cancel: Some(Cancel {
            requested_at: Time(5),
            reason: Some("r".to_owned()),
            grace_ends_at: None,
        }),
        suspicion: Suspicion::NONE.after_loss(1),
        finished_at: None,
        failure: Some(FailureKind::CellLost),
        owner: Some("token:a".into()),
        limits: LimitsOfJob {
            keys: vec![KeyOfJob {
                key: LimitKey {
                    limit: 6,
                    key: "k".into(),
                },
                units: 5,
                is_listed: true,
            }],
            waits_for: Some(0),
            held_in: 6,
        },
        notify: vec![Receiver {
            notify: Notify {
                url: "u".to_owned(),
                secret: "s".to_owned(),
                events: vec![Event::JobCompleted],
            },
            sent: DeliveryHistory {
                deliveries: 1,
                latest: Some(JobId(Uuid::from_u128(8))),
            },
        }],
        batch: Some(BatchId(Uuid::from_u128(7))),
        conditions: Conditions {
            when: vec![(JobId(Uuid::from_u128(8)), When::Failed)],
            inputs: vec![("i".into(), JobId(Uuid::from_u128(9)))],
            reads_others: true,
        }
        .some(),
        ended_ms: 0,
    }
}

fn requests() -> Requests {
    let mut requests = Requests::default();
    let asked = RequestTarget {
        method: Some("GET".to_owned()),
        origin: Some("http://a".to_owned()),
        path_pattern: Some("/b".to_owned()),
    };
    let place = requests.begin(1, &asked);
    let ended = RequestReport {
        end: RequestEnd::Answered(200),
        sent_bytes: 2,
        received_bytes: 3,
        took_us: 4,
    };
    requests.end(place, ended);
    let place = requests.begin(5, &RequestTarget::default());
    let end = RequestEnd::Failed(HttpErrorKind::TimedOut);
    requests.end(place, RequestReport { end, ..ended });
    requests.begin(6, &RequestTarget::default());
    requests
}

/// An attempt as hosts wrote it before workers reported facts.
const ATTEMPT: &str = "01020165010163010204046c6f7374010d016d000000000001010102030103010103474554010868\
     7474703a2f2f6101022f6200c80102030405000000010a020304060000000200000003010406";

fn attempt() -> Attempt {
    Attempt {
        number: 2,
        executor: "e".to_owned(),
        revision: Some(("c".to_owned(), 1)),
        started_at: Time(1),
        finished_at: Time(2),
        outcome: "lost".to_owned(),
        failure: Some(Failure {
            retryable: Some(true),
            ..Failure::new(FailureKind::Poison, "m")
        }),
        meter: Meter {
            fuel: 1,
            cpu_us: 2,
            peak_memory_bytes: 3,
        },
        requests: Some(Box::new(requests())),
        worker: Some(Box::new(WorkerReport {
            name: Some("n".to_owned()),
            ended_at: Some(Time(9)),
            read_bytes: Some(1),
            written_bytes: None,
        })),
    }
}

fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}

/// The samples are bytes in the files of users. Once the version is released, do not change them if this test
/// fails: add a version of the encoding and code that reads this one.
#[test]
fn version_1_stays_as_it_is() {
    let job = "011000000000000000000000000000000001030171016801017205050000e80780dddb018088b2a0\
               028088b2a00200000000020001040003010009030110000000000000000000000000000000021000\
               00000000000000000000000000000301770107060108000000010a010172000800010c0107746f6b\
               656e3a610106016b0501010006010175017301000101100000000000000000000000000000000801100000\
               00000000000000000000000000070101100000000000000000000000\
               000000000802010169100000000000000000000000000000000901";
    assert_eq!(hex(&encode(&lifecycle()).unwrap()), job);
    let worker = "0101016e0112010100";
    assert_eq!(
        hex(&encode(&attempt()).unwrap()),
        [ATTEMPT, worker].concat()
    );
}

/// Only jobs that were retried say how long they had ended.
#[test]
fn the_time_that_a_job_had_ended_comes_after_what_earlier_hosts_wrote() {
    let earlier = encode(&lifecycle()).unwrap();
    let retried = Lifecycle {
        ended_ms: 300,
        ..lifecycle()
    };
    let bytes = encode(&retried).unwrap();
    assert!(bytes.starts_with(&earlier) && bytes.len() == earlier.len() + 2);
    assert_eq!(decode::<Lifecycle>(&bytes, String::new).unwrap(), retried);
    assert_eq!(
        decode::<Lifecycle>(&earlier, String::new).unwrap(),
        lifecycle()
    );
}

#[test]
fn an_attempt_of_before_workers_reported_is_read() {
    let old = Attempt {
        worker: None,
        ..attempt()
    };
    let digits = |at: usize| u8::from_str_radix(&ATTEMPT[at..at + 2], 16).unwrap();
    let bytes: Vec<u8> = (0..ATTEMPT.len()).step_by(2).map(digits).collect();
    assert_eq!(decode::<Attempt>(&bytes, String::new).unwrap(), old);
}

#[test]
fn a_record_comes_back_as_it_was() {
    let what = || "it".to_owned();
    let bytes = encode(&lifecycle()).unwrap();
    assert_eq!(decode::<Lifecycle>(&bytes, what).unwrap(), lifecycle());
    let bytes = encode(&attempt()).unwrap();
    assert_eq!(decode::<Attempt>(&bytes, what).unwrap(), attempt());
}

#[test]
fn damaged_records_and_those_of_later_versions_are_named() {
    let good = encode(&lifecycle()).unwrap();
    let later: Vec<u8> = [&[VERSION + 1], &good[1..]].concat();
    for (bytes, reason) in [
        (&good[..good.len() / 2], "end of"),
        (&later[..], "encodings up to"),
        (&[], "empty"),
    ] {
        let error = decode::<Lifecycle>(bytes, || "job 7".to_owned())
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("job 7 cannot be read: "), "{error}");
        assert!(error.to_lowercase().contains(reason), "{error}");
    }
}
