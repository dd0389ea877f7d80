//! Cells in memory for tests. What a cell does with a run depends on the name of the handler.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use host_cells::port::{CellEvent, CellId, CellPort, Unresponsive};
use host_cells::run::chain::Planning;
use host_cells::run::handlers::Handlers;
use host_core::cell::{ComponentKey, FromCell, Level, LogLine, LogSource, RunId, Start, ToCell};
use host_core::handler::HandlerInfo;
use host_core::json::JsonText;
use host_core::outcome::{Meter, Outcome, Progress};
use host_core::time::Time;
use host_engine::component::{Digest, Manifest, Revision};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::mpsc;

use crate::compiled;

/// A message to a cell, in short form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CellMessage {
    Started(String),
    Load(String),
    Start(String, Began),
    Stop(u64),
    Killed(String),
    Unload(String),
}

/// The parts of a start message that tests compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Began {
    pub handler: String,
    pub attempt: u32,
}

/// What cells were sent, and which of them are alive. Clones share it.
#[derive(Clone, Default)]
pub struct Record(Arc<Mutex<Recorded>>);

#[derive(Default)]
struct Recorded {
    sent: Vec<CellMessage>,
    runs: Vec<(CellId, RunId, String)>,
    loaded: Vec<(CellId, ComponentKey)>,
    alive: BTreeSet<CellId>,
}

impl Record {
    fn lock(&self) -> MutexGuard<'_, Recorded> {
        self.0.lock()
    }

    /// Returns all messages to cells, in order.
    pub fn messages(&self) -> Vec<CellMessage> {
        self.lock().sent.clone()
    }

    /// Returns which component was given to which cell, in order.
    pub fn loaded(&self) -> Vec<(CellId, ComponentKey)> {
        self.lock().loaded.clone()
    }

    /// Returns how many cells are alive.
    pub fn alive(&self) -> usize {
        self.lock().alive.len()
    }

    /// Returns the latest run of a handler and its cell.
    pub fn run_of(&self, handler: &str) -> (CellId, RunId) {
        let record = self.lock();
        let mut runs = record.runs.iter();
        let (cell, run, _) = runs.rfind(|(.., name)| name == handler).unwrap();
        (*cell, *run)
    }

    fn record(&self, sent: CellMessage) {
        self.lock().sent.push(sent);
    }

    fn is_alive(&self, cell: CellId) -> bool {
        self.lock().alive.contains(&cell)
    }
}

/// The fake: `noop` completes, `echo` and `plan` return their params, `limit` its time limit, `hang` runs until it is stopped, `ignore`
/// runs until it is killed, `crash` kills its cell, `lie` reports on a run that the cell does not
/// have, `talk` reports progress and a log line and then hangs.
pub struct FakePort {
    events: mpsc::Sender<CellEvent>,
    record: Record,
    names: BTreeMap<CellId, String>,
    runs: BTreeMap<RunId, String>,
    /// Whether the cells become ready.
    ready: bool,
}

impl FakePort {
    pub fn new(events: mpsc::Sender<CellEvent>, ready: bool) -> (Self, Record) {
        let record = Record::default();
        let port = Self {
            events,
            record: record.clone(),
            names: BTreeMap::new(),
            runs: BTreeMap::new(),
            ready,
        };
        (port, record)
    }

    fn report(&self, cell: CellId, message: FromCell) {
        let messages = vec![message];
        let event = CellEvent::Received {
            cell,
            messages,
            room: None,
        };
        self.events.try_send(event).unwrap();
    }

    fn die(&mut self, cell: CellId, how: &str) {
        if self.record.lock().alive.remove(&cell) {
            let how = how.to_owned();
            self.events.try_send(CellEvent::Gone { cell, how }).unwrap();
        }
    }

    fn end_run(&self, cell: CellId, run: RunId, outcome: Outcome) {
        let meter = Meter {
            fuel: 1,
            cpu_us: 2,
            peak_memory_bytes: 3,
        };
        self.report(
            cell,
            FromCell::Ended {
                run,
                outcome,
                meter,
            },
        );
    }

    fn begin(&mut self, cell: CellId, start: Start) {
        let handler = start.context.handler.clone();
        self.runs.insert(start.run, handler.clone());
        let run = (cell, start.run, handler.clone());
        self.record.lock().runs.push(run);
        let sent = Began {
            handler: handler.clone(),
            attempt: start.context.attempt,
        };
        self.record
            .record(CellMessage::Start(self.names[&cell].clone(), sent));
        let run = start.run;
        match handler.as_str() {
            "noop" | "noop-checked" => {
                self.end_run(cell, run, Outcome::Completed { result: None });
            }
            "echo" | "plan" => {
                let result = Some(start.params);
                self.end_run(cell, run, Outcome::Completed { result });
            }
            "limit" => {
                let result = Some(JsonText(start.limits.timeout_ms.to_string()));
                self.end_run(cell, run, Outcome::Completed { result });
            }
            "giant" => {
                let result = Some(JsonText(format!("\"{}\"", "x".repeat(2 << 20))));
                self.end_run(cell, run, Outcome::Completed { result });
            }
            "crash" => self.die(cell, "it crashed"),
            "lie" => self.end_run(
                cell,
                RunId(run.0 + 1_000),
                Outcome::Completed { result: None },
            ),
            "talk" => {
                let progress = Progress {
                    percent: Some(50.0),
                    message: "half".to_owned(),
                };
                self.report(cell, FromCell::Progress { run, progress });
                let line = LogLine {
                    at_ms: 1,
                    level: Level::Info,
                    source: LogSource::Log,
                    message: "hello".to_owned(),
                    fields: Vec::new(),
                };
                let lines = vec![line];
                self.report(cell, FromCell::Log { run, lines });
            }
            _ => {}
        }
    }
}

impl CellPort for FakePort {
    fn start(&mut self, cell: CellId, name: &str, slots: u32) {
        self.record.record(CellMessage::Started(name.to_owned()));
        self.names.insert(cell, name.to_owned());
        self.record.lock().alive.insert(cell);
        if self.ready {
            self.report(cell, FromCell::Ready { slots });
        }
    }

    fn send(&mut self, cell: CellId, messages: Vec<ToCell>) -> Result<(), Unresponsive> {
        for message in messages {
            if !self.record.is_alive(cell) {
                break;
            }
            let name = self.names[&cell].clone();
            match message {
                ToCell::Load { component, .. } => {
                    self.record.lock().loaded.push((cell, component));
                    self.record.record(CellMessage::Load(name));
                }
                ToCell::Unload { .. } => self.record.record(CellMessage::Unload(name)),
                ToCell::Start(start) => self.begin(cell, *start),
                ToCell::Stop { run, grace_ms, .. } => {
                    self.record.record(CellMessage::Stop(grace_ms));
                    if matches!(self.runs[&run].as_str(), "hang" | "talk") {
                        self.end_run(cell, run, Outcome::Cancelled { partial: None });
                    }
                }
                ToCell::Describe { .. } => {}
            }
        }
        Ok(())
    }

    fn plan(&mut self, run: RunId, planning: Planning) {
        let planned = planning.run();
        self.events
            .try_send(CellEvent::Planned { run, planned })
            .unwrap();
    }

    fn kill(&mut self, cell: CellId) {
        if self.record.is_alive(cell) {
            self.record
                .record(CellMessage::Killed(self.names[&cell].clone()));
            self.die(cell, "it was killed");
        }
    }
}

/// The event of a run that stopped on request.
pub fn cancelled(cell: CellId, run: RunId) -> CellEvent {
    let ended = FromCell::Ended {
        run,
        outcome: Outcome::Cancelled { partial: None },
        meter: Meter::default(),
    };
    CellEvent::Received {
        cell,
        messages: vec![ended],
        room: None,
    }
}

/// Returns the handlers of the fake cells, deployed.
pub fn handlers() -> Handlers {
    /// It has a schema of its params.
    const CHECKED: &str = "noop-checked";
    let names = [
        "noop",
        "echo",
        "limit",
        "hang",
        "ignore",
        "crash",
        "talk",
        "noop-later",
        CHECKED,
    ];
    let schema =
        r#"{"properties":{"many":{"items":{"allOf":[{"type":"integer"},{"minimum":0}]}}}}"#;
    let infos = names.map(|name| HandlerInfo {
        name: name.parse().unwrap(),
        description: None,
        params_schema: (name == CHECKED).then(|| JsonText(schema.to_owned())),
        result_schema: None,
    });
    let digest = Digest([1; 32]);
    let handlers = Handlers::default();
    handlers.add_program(digest, PathBuf::from("/basics.cwasm"), compiled(2));
    handlers.replace(vec![Revision {
        component: "basics".parse().unwrap(),
        revision: 1,
        digest,
        manifest: Manifest::default(),
        handlers: infos.into(),
        deployed_at: Time(0),
        signature: None,
        schedules: Vec::new(),
        release: host_engine::component::Release::default(),
    }]);
    handlers
}
