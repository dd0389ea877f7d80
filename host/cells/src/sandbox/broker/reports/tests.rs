//! A broker that reports, at the other end of a socket pair.

use host_core::requests::RequestTarget;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};

use super::*;

fn broker(reports: &mut Reports) -> OwnedFd {
    let (ours, theirs) = socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .unwrap();
    reports.follow(&Arc::new(ours));
    theirs
}

fn begin(reports: &mut Reports, started_at: Time) -> u64 {
    let attempt = Context {
        job_id: "j".to_owned(),
        request_id: "j-2".to_owned(),
        handler: "script".to_owned(),
        queue: "default".to_owned(),
        protocol: "http".to_owned(),
        attempt: 2,
        max_attempts: None,
        enqueued_at: String::new(),
        deadline: None,
        worker_id: None,
        trace: vec![(
            "traceparent".to_owned(),
            "00-00000000000000000000000000000007-0000000000000008-01".to_owned(),
        )],
        attributes: Vec::new(),
    };
    reports.begin(started_at, &attempt)
}

fn notify(broker: &OwnedFd, message: &FromBroker) {
    let bytes = postcard::to_stdvec(message).unwrap();
    send(broker, &bytes, SendFlags::NOSIGNAL).unwrap();
}

fn began(run: u64, request: u64, at_ms: u64) -> FromBroker {
    FromBroker::Began {
        run,
        request,
        at_ms,
        handler: "h".to_owned(),
        span: Some(100 + request),
        asked: RequestTarget::default(),
    }
}

fn answer_message(run: u64, request: u64, status: u16) -> FromBroker {
    FromBroker::Ended {
        run,
        request,
        ended: without_answer(RequestEnd::Answered(status), 7),
    }
}

fn ends(requests: &Requests) -> Vec<(u64, RequestEnd)> {
    let records = requests.first.iter();
    records.map(|it| (it.at_ms, it.ended.end)).collect()
}

#[test]
fn each_attempt_gets_its_own_requests_in_the_order_of_their_beginnings() {
    let mut reports = Reports::default();
    let broker = broker(&mut reports);
    let [one, two] = [Time(0), Time(500)].map(|at| begin(&mut reports, at));
    for message in [
        began(one, 1, 10),
        began(two, 2, 20),
        began(one, 3, 30),
        answer_message(one, 3, 404),
        answer_message(one, 1, 200),
        // No run has these numbers.
        answer_message(two, 9, 200),
        began(77, 4, 1),
    ] {
        notify(&broker, &message);
    }
    let first = reports.end(Time(1_000), one);
    let both = [
        (10, RequestEnd::Answered(200)),
        (30, RequestEnd::Answered(404)),
    ];
    assert_eq!(ends(&first), both);
    assert_eq!((first.total, first.failed), (2, 0));
    let second = reports.end(Time(1_000), two);
    assert_eq!(ends(&second), [(20, RequestEnd::Cut)]);
    assert_eq!(second.first[0].ended.took_us, 480_000);
    assert_eq!(second.failed, 1);
    // Later reports belong to no run.
    notify(&broker, &answer_message(two, 2, 200));
    assert_eq!(reports.end(Time(1_000), two), Requests::default());
}

#[test]
fn what_a_dead_broker_has_not_answered_has_failed() {
    let mut reports = Reports::default();
    let first = broker(&mut reports);
    let run = begin(&mut reports, Time(0));
    for message in [
        began(run, 1, 1),
        began(run, 2, 2),
        answer_message(run, 1, 200),
    ] {
        notify(&first, &message);
    }
    drop(first);
    let second = broker(&mut reports);
    // Its numbers begin again.
    for message in [began(run, 1, 5), answer_message(run, 1, 201)] {
        notify(&second, &message);
    }
    let requests = reports.end(Time(9), run);
    let all = [
        (1, RequestEnd::Answered(200)),
        (2, RequestEnd::Failed(HttpErrorKind::Unavailable)),
        (5, RequestEnd::Answered(201)),
    ];
    assert_eq!(ends(&requests), all);
}

#[test]
fn what_cannot_be_read_changes_nothing() {
    let mut reports = Reports::default();
    let broker = broker(&mut reports);
    let run = begin(&mut reports, Time(0));
    for bytes in [&[255; 64][..], &[0; REPORT_BYTES_MAX + 1]] {
        send(&broker, bytes, SendFlags::NOSIGNAL).unwrap();
    }
    notify(&broker, &began(run, 1, 1));
    assert_eq!(reports.end(Time(1), run).total, 1);
}

/// Keeps what is reported: the id of the span, its parent, when the request began, and its end.
#[derive(Default)]
struct Watch(parking_lot::Mutex<Vec<(u64, u64, Time, RequestEnd)>>);

impl RequestWatch for Watch {
    fn has_spans(&self) -> bool {
        true
    }

    fn ended(&self, request: &EndedRequest<'_>) {
        assert_eq!(
            (request.handler, request.job, request.attempt),
            ("h", "j", 2)
        );
        let (parent, id) = request.span.unwrap();
        let seen = (id, parent.span_id, request.began_at, request.ended.end);
        self.0.lock().push(seen);
    }
}

#[test]
fn each_end_is_reported_once_even_without_an_answer() {
    let mut reports = Reports::default();
    let watch = Arc::<Watch>::default();
    reports.watch(Arc::clone(&watch) as _);
    let first = broker(&mut reports);
    let run = begin(&mut reports, Time(1_000));
    for message in [
        began(run, 1, 1),
        answer_message(run, 1, 200),
        began(run, 2, 2),
    ] {
        notify(&first, &message);
    }
    drop(first);
    let second = broker(&mut reports);
    notify(&second, &began(run, 3, 3));
    reports.end(Time(1_010), run);
    notify(&second, &answer_message(run, 3, 200));
    reports.end(Time(1_020), run);
    let gone = RequestEnd::Failed(HttpErrorKind::Unavailable);
    let all = [
        (101, 8, Time(1_001), RequestEnd::Answered(200)),
        (102, 8, Time(1_002), gone),
        (103, 8, Time(1_003), RequestEnd::Cut),
    ];
    assert_eq!(*watch.0.lock(), all);
}
