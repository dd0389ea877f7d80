//! The driver with a small line-based wire: what a session receives and in which order, when a
//! stream continues after a defect, and several listeners over one hub.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use host_core::port::Tag;
use host_core::time::Time;
use host_testing::{Refusals, TestClock};
use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::connection::Messages;
use super::outbox::Outbox;
use super::*;
use crate::driver::{EffectHandler, Hub, Input};
use crate::http_client::Requests;
use crate::leases::LeaseRequests;
use crate::session::{Actions, Link, Moment, Session};

const BOUND: Duration = Duration::from_mins(1);

/// The longest line, without its end.
const LINE_BYTES_MAX: usize = 8;

/// A connection ends when this many bytes of one line were skipped.
const SKIPPED_BYTES_MAX: usize = 64;

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Defect {
    /// The line is skipped up to its end.
    TooLong,
    /// The line has no end.
    Endless,
    Cut(Cut),
}

impl From<Cut> for Defect {
    fn from(cut: Cut) -> Self {
        Self::Cut(cut)
    }
}

/// Lines. Skips a line that is too long and continues with the next one.
#[derive(Default)]
struct Lines {
    buffer: BytesMut,
    /// How many bytes of the current line were skipped.
    skipped: usize,
}

impl Framing for Lines {
    type Defect = Defect;

    fn room(&mut self) -> &mut BytesMut {
        self.buffer.reserve(LINE_BYTES_MAX);
        &mut self.buffer
    }

    fn next(&mut self) -> Next<Defect> {
        let end = self.buffer.iter().position(|byte| *byte == b'\n');
        let line_bytes = self.skipped + end.unwrap_or(self.buffer.len());
        if line_bytes > SKIPPED_BYTES_MAX {
            return Next::Broken(Defect::Endless);
        }
        if line_bytes <= LINE_BYTES_MAX {
            let Some(end) = end else {
                return Next::Incomplete;
            };
            let line = self.buffer.split_to(end).freeze();
            self.buffer.advance(1);
            return Next::Frame(line);
        }
        let was_skipping = self.skipped > 0;
        if let Some(end) = end {
            self.buffer.advance(end + 1);
            self.skipped = 0;
        } else {
            self.skipped = line_bytes;
            self.buffer.clear();
        }
        if was_skipping {
            // The defect was reported when the line became too long.
            return if end.is_some() {
                self.next()
            } else {
                Next::Incomplete
            };
        }
        Next::Skipped(Defect::TooLong)
    }

    fn pending(&self) -> Pending {
        if self.buffer.is_empty() {
            Pending::Nothing
        } else {
            Pending::Body
        }
    }

    fn pending_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Skips a late line if it begins with `~`.
    fn late(&mut self, stage: Pending) -> Next<Defect> {
        let defect = Defect::Cut(Cut::Late(stage));
        if self.buffer.first() != Some(&b'~') {
            return Next::Broken(defect);
        }
        self.skipped = LINE_BYTES_MAX + 1;
        self.buffer.clear();
        Next::Skipped(defect)
    }

    fn time_limit(_stage: Pending) -> Duration {
        Duration::from_secs(5)
    }
}

/// Echoes each line but `wait`, asks the host to record it, and closes at `bye`. `in 5` sets a timer.
#[derive(Default)]
struct Echo {
    due: Option<Time>,
    open: Vec<Link>,
}

type EchoActions = Actions<String, String>;

impl StreamSession for Echo {
    type Framing = Lines;

    fn read(frame: Result<Bytes, Defect>) -> Self::In {
        frame.map(|line| String::from_utf8_lossy(&line).into_owned())
    }

    fn write(message: &String, out: &mut BytesMut) {
        out.extend_from_slice(message.as_bytes());
        out.extend_from_slice(b"\n");
    }
}

impl Session for Echo {
    const WIRE: &'static str = "echo";
    type In = Result<String, Defect>;
    type Out = String;
    type Effect = String;
    type Event = String;

    fn on_open(&mut self, _now: Time, link: Link, _actions: &mut EchoActions) {
        assert!(!self.open.contains(&link), "no link is used twice");
        self.open.push(link);
    }

    fn on_message(&mut self, at: Moment, link: Link, message: Self::In, actions: &mut EchoActions) {
        match message {
            Ok(text) => {
                if let Some(ms) = text.strip_prefix("in ") {
                    self.due = Some(at.now.plus_ms(ms.parse().unwrap()));
                }
                actions.effect(text.clone());
                if text == "bye" {
                    actions.close(link);
                } else if text != "wait" {
                    actions.send(link, text);
                }
            }
            Err(defect) => {
                actions.count("E_LINE");
                actions.send(link, format!("{defect:?}"));
            }
        }
    }

    fn on_event(&mut self, _at: Moment, event: String, actions: &mut EchoActions) {
        for link in &self.open {
            actions.send(*link, event.clone());
        }
        if event.starts_with("note") {
            actions.effect(event);
        }
    }

    fn on_closed(&mut self, _now: Time, link: Link, actions: &mut EchoActions) {
        self.open.retain(|open| *open != link);
        actions.effect("closed".to_owned());
    }

    fn wakeup(&self) -> Option<Time> {
        self.due
    }

    fn on_wakeup(&mut self, _now: Time, actions: &mut EchoActions) {
        self.due = None;
        actions.effect("due".to_owned());
    }

    fn is_idle(&self) -> bool {
        self.open.is_empty()
    }
}

/// Records each effect.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl EffectHandler<Echo> for Notes {
    fn handle(&self, _hub: &Arc<Hub<Echo, Self>>, effect: String) {
        assert_ne!(effect, "panic", "a handler must not, this one does");
        self.0.lock().push(effect);
    }
}

struct Bench {
    hub: Arc<Hub<Echo, Notes>>,
    clock: Arc<TestClock>,
    refusals: Arc<Refusals>,
}

fn bench(connections_max: usize) -> Bench {
    let (clock, refusals) = (Arc::new(TestClock::default()), Refusals::of("echo"));
    Bench {
        hub: Hub::with_limit(
            Echo::default(),
            Notes::default(),
            Arc::<TestClock>::clone(&clock),
            Arc::<Refusals>::clone(&refusals),
            connections_max,
        ),
        clock,
        refusals,
    }
}

/// The peer's end of a connection.
struct Peer<T>(BufReader<T>);

impl<T: AsyncRead + AsyncWrite + Unpin> Peer<T> {
    async fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    /// Returns the next line, or `None` at the end of the connection.
    async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = timeout(BOUND, self.0.read_line(&mut line));
        match read.await.expect("a line or the end") {
            Ok(bytes) if bytes > 0 => Some(line.trim_end().to_owned()),
            _ => None,
        }
    }
}

/// Serves one connection in memory while `play` acts as the peer.
async fn over_memory<F: Future<Output = ()>>(
    bench: &Bench,
    play: impl FnOnce(Peer<tokio::io::DuplexStream>) -> F,
) {
    let (ours, theirs) = tokio::io::duplex(256);
    let serving = serve_connection(Arc::clone(&bench.hub), Link(0), theirs);
    let both = async { tokio::join!(serving, play(Peer(BufReader::new(ours)))) };
    timeout(BOUND, both).await.expect("both sides end");
    assert!(bench.hub.inspect(Session::is_idle));
    assert_eq!(bench.hub.handler().0.lock().last().unwrap(), "closed");
}

#[test]
fn what_is_due_goes_before_what_a_peer_sends() {
    let bench = bench(1);
    let messages = Messages::<Echo>::to(&Arc::new(Outbox::default()));
    bench.hub.submit(Input::Opened(Link(0), Box::new(messages)));
    let say = |line: &str| {
        let message = Ok(line.to_owned());
        bench.hub.submit(Input::Message(Link(0), message));
    };
    say("in 5");
    bench.clock.pass(5);
    // No timer runs here: the message alone makes the hub process its input.
    say("b");
    assert_eq!(*bench.hub.handler().0.lock(), ["in 5", "due", "b"]);
}

#[test]
fn lines_are_cut_alike_in_any_portions() {
    let text = b"a\n123456789\nb\n\n1234567890123456789\n\nlong without end";
    let too_long = || Err(Defect::TooLong);
    let expected = [
        Ok("a"),
        too_long(),
        Ok("b"),
        Ok(""),
        too_long(),
        Ok(""),
        too_long(),
    ];
    for portion in 1..text.len() {
        let mut lines = Lines::default();
        let mut found = Vec::new();
        for part in text.chunks(portion) {
            lines.room().extend_from_slice(part);
            loop {
                match lines.next() {
                    Next::Frame(line) => found.push(Ok(String::from_utf8(line.into()).unwrap())),
                    Next::Skipped(defect) => found.push(Err(defect)),
                    Next::Incomplete => break,
                    Next::Broken(defect) => panic!("{defect:?}"),
                }
            }
        }
        let found: Vec<_> = found
            .iter()
            .map(|it| it.as_deref().map_err(|it| *it))
            .collect();
        assert_eq!(found, expected, "in portions of {portion}");
    }
}

#[tokio::test]
async fn a_stream_goes_on_after_a_line_that_is_skipped() {
    let bench = bench(1);
    over_memory(&bench, async |mut peer| {
        peer.send("one\n123456789").await;
        assert_eq!(peer.line().await.unwrap(), "one");
        assert_eq!(peer.line().await.unwrap(), "TooLong");
        peer.send("more of it\ntwo\nbye\n").await;
        assert_eq!(peer.line().await.unwrap(), "two");
        assert_eq!(peer.line().await, None);
    })
    .await;
    assert_eq!(bench.refusals.codes(), ["E_LINE"]);
}

#[tokio::test]
async fn a_broken_stream_ends_after_what_the_session_says_about_it() {
    let bench = bench(1);
    over_memory(&bench, async |mut peer| {
        peer.send(&format!(
            "one\n{}\ntwo\n",
            "x".repeat(SKIPPED_BYTES_MAX + 1)
        ))
        .await;
        assert_eq!(peer.line().await.unwrap(), "one");
        let mut defects = Vec::new();
        while let Some(line) = peer.line().await {
            defects.push(line);
        }
        // The driver closed the connection, not the session.
        assert_eq!(defects.last().unwrap(), "Endless");
        assert!(!defects.contains(&"two".to_owned()));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_frame_that_does_not_become_whole_is_a_defect_too() {
    let bench = bench(1);
    over_memory(&bench, async |mut peer| {
        peer.send("slow").await;
        assert_eq!(peer.line().await.unwrap(), "Cut(Late(Body))");
        assert_eq!(peer.line().await, None);
    })
    .await;
    over_memory(&bench, async |mut peer| {
        peer.send("half").await;
        peer.0.shutdown().await.unwrap();
        assert_eq!(
            peer.0.read(&mut [0]).await.unwrap(),
            0,
            "nothing is written any more"
        );
    })
    .await;
    assert_eq!(bench.refusals.codes(), ["E_LINE"; 2]);
}

#[tokio::test(start_paused = true)]
async fn a_framing_may_skip_a_frame_that_is_late() {
    let bench = bench(1);
    over_memory(&bench, async |mut peer| {
        peer.send("~slow").await;
        assert_eq!(peer.line().await.unwrap(), "Cut(Late(Body))");
        peer.send(" end of it\none\nbye\n").await;
        assert_eq!(peer.line().await.unwrap(), "one");
        assert_eq!(peer.line().await, None);
    })
    .await;
    assert_eq!(bench.refusals.codes(), ["E_LINE"]);
}

#[tokio::test]
async fn an_effect_that_panics_silences_no_other_connection() {
    let bench = bench(1);
    let hub = Arc::clone(&bench.hub);
    let (ours, theirs) = tokio::io::duplex(256);
    let mut serving = tokio::task::JoinSet::new();
    serving.spawn(serve_connection(hub, Link(7), theirs));
    let mut bad = Peer(BufReader::new(ours));
    bad.send("panic\n").await;
    assert_eq!(bad.line().await, None);
    assert!(serving.join_next().await.unwrap().is_err());
    over_memory(&bench, async |mut peer| {
        peer.send("good\nbye\n").await;
        assert_eq!(peer.line().await.unwrap(), "good");
    })
    .await;
}

#[tokio::test]
async fn several_listeners_feed_one_hub_and_share_its_limit() {
    let one = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (at_one, at_other) = (one.local_addr().unwrap(), other.local_addr().unwrap());
    let bench = bench(2);
    let stopping = CancellationToken::new();
    let serving = async {
        let (mut a, mut b) = tokio::join!(
            accept(&bench.hub, one, &stopping),
            accept(&bench.hub, other, &stopping)
        );
        bench.hub.report("the end".to_owned());
        // Open connections continue until their peers close them.
        while a.join_next().await.is_some() || b.join_next().await.is_some() {}
    };
    let playing = async {
        let mut first = Peer(BufReader::new(TcpStream::connect(at_one).await.unwrap()));
        let mut second = Peer(BufReader::new(TcpStream::connect(at_other).await.unwrap()));
        first.send("a\n").await;
        assert_eq!(first.line().await.unwrap(), "a");
        second.send("b\n").await;
        assert_eq!(second.line().await.unwrap(), "b");
        let mut third = Peer(BufReader::new(TcpStream::connect(at_one).await.unwrap()));
        assert_eq!(third.line().await, None, "two are all it takes");
        bench.hub.report("all".to_owned());
        assert_eq!(first.line().await.unwrap(), "all");
        assert_eq!(second.line().await.unwrap(), "all");
        second.send("bye\n").await;
        assert_eq!(second.line().await, None);
        drop(second);
        bench.hub.until(|echo| echo.open.len() == 1).await;
        // There is room again when the task of the connection has ended.
        let mut fourth = loop {
            let mut peer = Peer(BufReader::new(TcpStream::connect(at_other).await.unwrap()));
            if peer.0.write_all(b"c\n").await.is_ok() && peer.line().await.as_deref() == Some("c") {
                break peer;
            }
        };
        stopping.cancel();
        assert_eq!(fourth.line().await.unwrap(), "the end");
    };
    let both = async { tokio::join!(serving, playing) };
    timeout(BOUND, both).await.expect("both sides end");
}

#[tokio::test]
async fn a_request_has_one_answer() {
    let hub = bench(0).hub;
    let answer = hub.request(Ok("one".to_owned())).await;
    assert_eq!(answer.as_deref(), Some("one"));
    hub.report("more".to_owned());
    assert_eq!(*hub.handler().0.lock(), ["one"]);
    hub.request(Ok("in 0".to_owned())).await;
    hub.pass_time();
    assert_eq!(hub.handler().0.lock().split_off(1), ["in 0", "due"]);
    // The session closes it.
    assert_eq!(hub.request(Ok("bye".to_owned())).await, None);
    assert_eq!(*hub.handler().0.lock(), ["one", "bye", "closed"]);
}

#[tokio::test]
async fn a_requester_that_leaves_closes_its_request() {
    let hub = bench(0).hub;
    {
        let mut request = Box::pin(hub.request(Ok("wait".to_owned())));
        assert_eq!(futures_util::poll!(&mut request), Poll::Pending);
    }
    assert_eq!(*hub.handler().0.lock(), ["wait", "closed"]);
}

#[test]
fn an_answer_of_the_host_is_an_event() {
    let hub = bench(0).hub;
    let responder = hub.responder(|answer: u32| format!("note {answer}"));
    assert!(!responder.is_gone());
    assert_eq!(responder.respond(7), Ok(()));
    assert_eq!(*hub.handler().0.lock(), ["note 7"]);
    let open = LeaseRequests::default();
    let responder = open.responder(&hub, Tag(1), |answer: u32| format!("note {answer}"));
    open.withdraw(Tag(1));
    assert!(responder.is_gone());
    assert_eq!(responder.respond(8), Err(8));
    let responder = open.responder(&hub, Tag(2), |answer: u32| format!("note {answer}"));
    assert_eq!(responder.respond(9), Ok(()));
    open.withdraw(Tag(2));
    assert_eq!(*hub.handler().0.lock(), ["note 7", "note 9"]);
}

#[tokio::test]
async fn a_request_over_http_ends_when_it_is_aborted() {
    let requests = Requests::in_this_runtime();
    let (done, ended) = oneshot::channel();
    // The host answers on threads of its own.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            requests.start(Tag(1), async move {
                done.send(()).unwrap();
            });
        });
    });
    requests.start(Tag(2), std::future::pending());
    requests.abort(Tag(2));
    timeout(BOUND, requests.join()).await.expect("both end");
    assert_eq!(ended.await, Ok(()));
}
