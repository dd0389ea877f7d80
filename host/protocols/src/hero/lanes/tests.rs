//! What lanes there are and what the dispatch loop hears of them, without a Redis.

use super::*;
use host_runtime::clock::Clock;

fn lanes() -> (Lanes, Arc<Inbox>) {
    let inbox = Arc::new(Inbox::default());
    let config = LanesConfig {
        url: RedisUrl::parse("redis://me:hush@127.0.0.1:1/2").unwrap(),
        instance: "host-a".to_owned(),
        in_flight_max: 7,
    };
    let lanes = Lanes::new(config, Arc::new(Clock::start()), Arc::clone(&inbox));
    (lanes, inbox)
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn assignment(handler: &str) -> Assignment {
    Assignment {
        request_id: "r".to_owned(),
        job_id: "j".to_owned(),
        handler: handler.to_owned(),
        params: host_core::json::JsonText("{}".to_owned()),
        queue: "default".to_owned(),
        attempt: 1,
        enqueued_at: host_core::time::Time(0),
        timeout_ms: 1_000,
        deadline: None,
        trace: Vec::new(),
        attributes: Vec::new(),
        worker_id: "host".to_owned(),
    }
}

#[test]
fn a_lane_is_there_by_its_name() {
    for (name, is) in [
        ("hero-w1", true),
        ("hero-a.b/c", true),
        ("hero-", false),
        ("hero", false),
        ("python", false),
    ] {
        assert_eq!(is_lane(name), is, "{name}");
    }
    let (lanes, _) = lanes();
    assert!(lanes.open(&name("python")).is_none());
    for n in 0..LANES_MAX {
        assert!(lanes.admit(&name(&format!("hero-{n}"))), "{n}");
    }
    assert!(!lanes.admit(&name("hero-more")));
    assert!(lanes.admit(&name("hero-0")), "it is there already");
    assert!(
        lanes.open(&name("hero-kept")).is_some(),
        "its jobs are kept"
    );
}

#[test]
fn a_lane_takes_work_only_while_redis_is_there() {
    let (lanes, inbox) = lanes();
    let (one, other) = (name("hero-w1"), name("hero-w2"));
    lanes.open(&one);
    let state = |lanes: &Lanes| lanes.health()[0].runners[0].clone();
    assert_eq!(
        (inbox.capacity(&one), state(&lanes).state.as_str()),
        (0, "starting")
    );
    lanes.post.connected("dispatcher");
    assert_eq!(inbox.capacity(&one), 0, "earlier jobs come first");
    lanes.post.ready();
    lanes.open(&other);
    assert_eq!((inbox.capacity(&one), inbox.capacity(&other)), (7, 7));
    let up = state(&lanes);
    assert_eq!((up.state.as_str(), up.reason), ("up", None));
    assert_eq!(up.address.as_deref(), Some("redis://127.0.0.1:1/2"));
    lanes.post.away("dispatcher", 3, "refused");
    let down = state(&lanes);
    assert_eq!((inbox.capacity(&one), down.state.as_str()), (0, "down"));
    assert_eq!(
        (down.failures, down.reason.as_deref()),
        (3, Some("refused"))
    );
}

#[test]
fn what_is_out_is_counted_and_its_end_is_told() {
    let (lanes, inbox) = lanes();
    let lane = lanes.open(&name("hero-w1")).unwrap();
    let in_flight = || lanes.health()[0].runners[0].in_flight;
    lane.start(Tag(1), assignment("resize"));
    assert_eq!(in_flight(), 1);
    let lost = End::Lost("gone".to_owned());
    lanes.post.ended(Tag(1), lost.clone());
    lanes.post.ended(Tag(1), lost.clone());
    let over = inbox.take().over;
    assert_eq!(over.len(), 1, "once");
    assert_eq!(
        (over[0].executor.as_str(), &over[0].end),
        ("hero-w1", &lost)
    );
    assert_eq!(in_flight(), 0);
}

#[test]
fn a_script_without_one_fails_before_it_is_sent() {
    let (lanes, inbox) = lanes();
    let lane = lanes.open(&name("hero-w1")).unwrap();
    lane.start(Tag(1), assignment(SCRIPT));
    let over = inbox.take().over;
    let End::Outcome(Outcome::Failed(failure)) = &over[0].end else {
        panic!("{over:?}")
    };
    assert_eq!(failure.kind, host_core::failure::FailureKind::InvalidParams);
    assert!(check(&name(SCRIPT), "{\"script\":1}").is_err());
    assert!(check(&name(SCRIPT), "{\"script\":\"1\"}").is_ok());
    assert!(check(&name("resize"), "{}").is_ok());
}

#[tokio::test]
async fn a_host_that_stops_without_redis_ends_all() {
    let (lanes, inbox) = lanes();
    let lane = lanes.open(&name("hero-w1")).unwrap();
    lane.start(Tag(1), assignment("resize"));
    let stopping = CancellationToken::new();
    stopping.cancel();
    let run = lanes.desk.clone().run(lanes.url.clone(), stopping);
    tokio::time::timeout(std::time::Duration::from_secs(10), run)
        .await
        .unwrap();
    lane.start(Tag(2), assignment("resize"));
    let over = inbox.take().over;
    let ends: Vec<_> = over.iter().map(|over| (over.tag, &over.end)).collect();
    assert_eq!(ends, [(Tag(1), &End::NoRoom), (Tag(2), &End::NoRoom)]);
}
