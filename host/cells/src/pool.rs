//! Tracks all cells and their runs: free slots, loaded components, and cells to kill or restart. It
//! reaches cells only through a [`CellPort`], and knows neither a store nor a clock.

mod cell;
mod event;
pub mod executor;
mod isolation;
pub mod kill_deadline;
pub mod load;
pub mod masking;
mod respawn;
mod slots;
pub mod suspects;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use host_core::cell::{ComponentKey, RunId, TimeBound, ToCell};
use host_core::egress::ReportAs;
use host_core::handler::Limits;
use host_core::id::{JobId, LeaseId};
use host_core::outcome::Outcome;
use host_core::requests::Requests;
use host_core::suspicion::GROUP_JOBS_MAX;
use host_core::time::Time;
use host_core::writes::{WriteBuffer, Writes};

use self::cell::{Cell, Kind};
use self::kill_deadline::KillDeadline;
use self::load::Load;
use self::respawn::CellRespawn;
use crate::port::{CellId, CellPort};
use crate::run::chain::Chain;
use crate::run::handlers::Program;
use crate::run::order::Order;

pub use self::event::PoolEvent;
pub use self::isolation::Isolation;

/// How long a cell may take to start, in milliseconds.
const START_TIMEOUT_MS: u64 = 15_000;

/// How many cells there are and how many slots each has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The prefix of the cells' names. A number follows it.
    pub name: &'static str,
    /// How many shared cells there are. Groups of suspects get additional cells, at most as many again.
    pub cells: usize,
    /// How many runs one cell executes concurrently at most; fewer if they compute for long or need much memory.
    pub slots: u32,
    /// The memory for all guests of one cell together.
    pub memory_bytes: u64,
    pub isolation: Isolation,
}

/// One run that is in a cell.
#[derive(Clone, Debug)]
pub struct Run {
    pub job: JobId,
    pub lease: LeaseId,
    pub attempt: u32,
    /// The name of its cell.
    pub executor: String,
    /// The handler, and the component and its revision that it comes from.
    pub handler: String,
    pub revision: (String, u32),
    /// The limits of the attempt.
    pub limits: Limits,
    pub time_bound: TimeBound,
    /// When the run was given to its cell.
    pub started_at: Time,
    /// Its requests to HTTP servers, once it has ended; `None` if it made none.
    pub requests: Option<Box<Requests>>,
    /// The number of the record of its requests, if it may make some.
    record: Option<u64>,
    component: ComponentKey,
    cell: CellId,
    kill_deadline: KillDeadline,
    /// Collects what the attempt writes at its end.
    pub writes: Option<WriteBuffer>,
    logged_bytes: u64,
    revoked: bool,
    chain: Option<Box<Chain>>,
    /// Whether the steps of the chain are being planned. No guest runs then.
    planning: bool,
    /// Whether the cell could not load the component.
    unloaded: bool,
    /// When the current step was given to the cell.
    step_started_at: Time,
}

/// Where a run will execute. The dispatcher keeps this from the offer of a slot until the lease is
/// granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CellSlot {
    /// In this shared cell.
    Shared(CellId),
    /// In a cell that executes its component only.
    OfComponent,
    /// In the cell of this group of suspects, which starts with the group's first run.
    Apart(CellId),
}

pub struct Pool<P> {
    port: P,
    shape: Shape,
    respawns: Vec<CellRespawn>,
    cells: BTreeMap<CellId, Cell>,
    runs: HashMap<RunId, Run>,
    by_lease: HashMap<LeaseId, RunId>,
    cells_made: u64,
    runs_made: u64,
    apart_made: u64,
    apart_not_before: Time,
    /// How many components are deployed.
    components: usize,
    /// Whether the last cell for one component failed to start.
    hindered: bool,
    closing: bool,
}

impl<P: CellPort> Pool<P> {
    /// Makes a pool. Its cells start at the first [`Pool::tick`].
    pub fn new(port: P, shape: Shape) -> Self {
        Self {
            port,
            shape,
            respawns: (0..shape.cells_at_start())
                .map(|_| CellRespawn::default())
                .collect(),
            cells: BTreeMap::new(),
            runs: HashMap::new(),
            by_lease: HashMap::new(),
            cells_made: 0,
            runs_made: 0,
            apart_made: 0,
            apart_not_before: Time(i64::MIN),
            components: 0,
            hindered: false,
            closing: false,
        }
    }

    /// Returns how many runs cells can begin immediately, one for each processor that they may use, and how many they have
    /// room for in all.
    pub const fn size(&self) -> (usize, usize) {
        let cells = self.shape.cells;
        (cells, cells * self.shape.slots as usize)
    }

    /// Returns how many more runs the shared cells can take now.
    pub fn free(&self) -> usize {
        if self.shape.isolation == Isolation::Component {
            return self.free_for_components();
        }
        self.loads()
            .iter()
            .map(|load| load.slots.saturating_sub(load.runs) as usize)
            .sum()
    }

    /// Returns how many more groups of suspects may start at `now`, each in a cell of its own.
    pub fn free_apart(&self, now: Time) -> usize {
        if self.closing || now < self.apart_not_before {
            return 0;
        }
        let busy = self.cells.values().filter(|cell| cell.kind == Kind::Apart);
        self.shape.cells.saturating_sub(busy.count())
    }

    /// Returns the slots of the groups of suspects that may start at `now`.
    pub fn offer_apart(&mut self, now: Time) -> Vec<CellSlot> {
        let groups = 0..self.free_apart(now);
        groups.map(|_| CellSlot::Apart(self.new_id())).collect()
    }

    /// Returns the time from which suspects may start.
    pub fn apart_at(&self) -> Time {
        self.apart_not_before
    }

    /// Returns slots for at most `wanted` runs.
    pub fn offer(&self, wanted: usize) -> Vec<CellSlot> {
        match self.shape.isolation {
            Isolation::Shared => {
                let cells = load::spread(self.loads(), wanted).into_iter();
                cells.map(CellSlot::Shared).collect()
            }
            Isolation::Component => vec![CellSlot::OfComponent; wanted.min(self.free())],
        }
    }

    /// Returns the name of a slot, for people. One of a component is not known before its run.
    pub fn name(&self, slot: &CellSlot) -> &str {
        match slot {
            CellSlot::Shared(cell) => self.cells.get(cell).map_or("cell-gone", |cell| &cell.name),
            CellSlot::OfComponent => self.shape.name,
            CellSlot::Apart(_) => "cell-apart",
        }
    }

    /// Returns how many runs the cells have now.
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Returns whether the pool has no cells.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Returns how many cells accept runs.
    pub fn ready(&self) -> usize {
        self.cells.values().filter(|cell| cell.ready).count()
    }

    /// Starts a run. Returns the order if the chosen cell has died in the meantime.
    pub fn start(
        &mut self,
        now: Time,
        slot: &CellSlot,
        program: &Program,
        order: Order,
    ) -> Result<(), Box<Order>> {
        let id = match slot {
            CellSlot::Shared(id) => *id,
            CellSlot::OfComponent => self.cell_of(now, program.component),
            CellSlot::Apart(id) => self.cell_apart(now, *id, program.component),
        };
        let Some(cell) = self.cells.get_mut(&id).filter(|cell| !cell.doomed) else {
            return Err(Box::new(order));
        };
        let run = RunId(self.runs_made);
        self.runs_made += 1;
        let mut start = order.start;
        start.run = run;
        start.component = program.component;
        let record = start.http.as_mut().map(|door| {
            let run = self.port.record_requests(now, &start.context);
            door.pass.report_as = Some(ReportAs {
                run,
                began_ms: 0,
                first_span: None,
            });
            run
        });
        let kept = Run {
            job: order.job,
            lease: order.lease,
            attempt: start.context.attempt,
            executor: cell.name.clone(),
            handler: start.context.handler.clone(),
            revision: order.revision,
            limits: start.limits.clone(),
            time_bound: start.time_bound,
            started_at: now,
            requests: None,
            record,
            component: program.component,
            cell: id,
            kill_deadline: KillDeadline::begin(now, start.limits.timeout_ms),
            logged_bytes: 0,
            revoked: false,
            writes: order.writes,
            chain: order.chain,
            planning: false,
            unloaded: false,
            step_started_at: now,
        };
        cell.begin(program, start);
        self.by_lease.insert(kept.lease, run);
        self.runs.insert(run, kept);
        Ok(())
    }

    /// Asks a run to stop within `grace_ms`, or within its own grace period. Does nothing if no run
    /// has this lease.
    pub fn stop(&mut self, now: Time, lease: LeaseId, grace_ms: Option<u64>, reason: &str) {
        let Some(id) = self.by_lease.get(&lease) else {
            return;
        };
        let Some(run) = self.runs.get_mut(id) else {
            return;
        };
        let grace_ms = grace_ms.unwrap_or(run.limits.grace_ms);
        run.kill_deadline.stop(now, grace_ms);
        if let Some(cell) = self.cells.get_mut(&run.cell) {
            cell.outbox.push(ToCell::Stop {
                run: *id,
                grace_ms,
                reason: reason.to_owned(),
            });
        }
    }

    /// Does the same within `most_ms`: the run has that or its own grace period, whichever is
    /// shorter.
    pub fn stop_within(&mut self, now: Time, lease: LeaseId, most_ms: u64, reason: &str) {
        let run = self.by_lease.get(&lease).and_then(|id| self.runs.get(id));
        if let Some(run) = run {
            let grace_ms = run.limits.grace_ms.min(most_ms);
            self.stop(now, lease, Some(grace_ms), reason);
        }
    }

    /// Ends a run whose lease was revoked. The pool reports nothing more about it.
    pub fn revoke(&mut self, now: Time, lease: LeaseId) {
        self.stop(now, lease, Some(0), "the lease was revoked");
        let run = self
            .by_lease
            .get(&lease)
            .and_then(|id| self.runs.get_mut(id));
        if let Some(run) = run {
            run.revoked = true;
        }
    }

    /// Unmaps components that no handler needs and no run uses.
    pub fn keep_loaded(&mut self, needed: impl Fn(ComponentKey) -> bool) {
        self.retire_idle(|cell| !cell.loaded.iter().any(|component| needed(*component)));
        let runs = &self.runs;
        for (id, cell) in &mut self.cells {
            cell.unload(|component| {
                needed(component)
                    || runs
                        .values()
                        .any(|run| run.cell == *id && run.component == component)
            });
        }
    }

    /// Does the work that is due at `now`: kills cells whose runs do not end in time, and starts
    /// missing cells.
    pub fn tick(&mut self, now: Time) {
        debug_assert_eq!(
            self.cells.values().map(|it| it.runs.len()).sum::<usize>(),
            self.runs.len(),
            "each run is in one cell"
        );
        self.kill_overrun(now);
        for id in self.late_starters(now) {
            self.doom(id, "it was not ready in time");
        }
        if self.closing {
            return;
        }
        self.retire_idle(|cell| cell.retires_at().is_some_and(|at| now >= at));
        for index in 0..self.respawns.len() {
            if self.respawns[index].is_due(now) {
                let cell = self.open(now, Kind::Shared { index });
                self.respawns[index].started(cell);
            }
        }
    }

    /// Returns when [`Pool::tick`] must be called next.
    pub fn due(&self) -> Option<Time> {
        let doomed = |run: &&Run| self.cells.get(&run.cell).is_some_and(|cell| cell.doomed);
        let kills = self
            .runs
            .values()
            .filter(|run| !run.planning && !doomed(run))
            .map(|run| run.kill_deadline.kill_at());
        let starts = self.cells.values().filter_map(Cell::start_limit);
        let respawns = self
            .respawns
            .iter()
            .filter(|_| !self.closing)
            .filter_map(CellRespawn::due);
        let idle = self
            .cells
            .values()
            .filter(|_| !self.closing)
            .filter_map(Cell::retires_at);
        kills.chain(starts).chain(respawns).chain(idle).min()
    }

    /// Sends each cell the messages that have collected since the last call.
    pub fn flush(&mut self) {
        for (id, cell) in &mut self.cells {
            if cell.outbox.is_empty() || cell.doomed {
                continue;
            }
            if self
                .port
                .send(*id, std::mem::take(&mut cell.outbox))
                .is_err()
            {
                tracing::error!(
                    cell = cell.name,
                    "the cell does not read its messages; killing it"
                );
                cell.doomed = true;
                self.port.kill(*id);
            }
        }
    }

    /// Kills all cells and starts no more. Their runs are lost because the host stops.
    pub fn close(&mut self) {
        self.closing = true;
        for (id, cell) in &mut self.cells {
            cell.doomed = true;
            self.port.kill(*id);
        }
    }

    fn loads(&self) -> Vec<Load> {
        let cells = self.cells.iter();
        cells
            .filter(|(_, cell)| cell.takes_runs())
            .map(|(id, cell)| Load {
                cell: *id,
                runs: u32::try_from(cell.runs.len()).unwrap_or(u32::MAX),
                slots: cell.slots(self.shape.memory_bytes),
            })
            .collect()
    }

    fn new_id(&mut self) -> CellId {
        self.cells_made += 1;
        CellId(self.cells_made - 1)
    }

    fn open(&mut self, now: Time, kind: Kind) -> CellId {
        let id = self.new_id();
        self.open_as(now, kind, id);
        id
    }

    /// Returns the cell for a run of a group of suspects: the group's own, unless that has another component and each
    /// component has its own cells.
    fn cell_apart(&mut self, now: Time, group: CellId, component: ComponentKey) -> CellId {
        match self.cells.get(&group) {
            None => self.open_as(now, Kind::Apart, group),
            Some(cell) => {
                let is_other = !cell.loaded.contains(&component);
                if is_other && self.shape.isolation == Isolation::Component {
                    return self.open(now, Kind::Apart);
                }
            }
        }
        group
    }

    fn open_as(&mut self, now: Time, kind: Kind, id: CellId) {
        let (name, slots) = match kind {
            Kind::Shared { index } if self.shape.isolation == Isolation::Shared => (
                format!("{}-{}", self.shape.name, index + 1),
                self.shape.slots,
            ),
            Kind::Shared { .. } | Kind::Bound { .. } => (self.unused_name(), self.shape.slots),
            Kind::Apart => {
                self.apart_made += 1;
                let name = format!("{}-apart-{}", self.shape.name, self.apart_made);
                (name, u32::try_from(GROUP_JOBS_MAX).unwrap_or(u32::MAX))
            }
        };
        self.port.start(id, &name, slots);
        self.cells.insert(id, Cell::new(now, kind, name, slots));
    }

    /// Returns the first name with a number that no cell has.
    fn unused_name(&self) -> String {
        let names: BTreeSet<&str> = self.cells.values().map(|cell| &*cell.name).collect();
        let mut free = (1..).map(|number: u64| format!("{}-{number}", self.shape.name));
        free.find(|name| !names.contains(&**name))
            .unwrap_or_default()
    }

    fn late_starters(&self, now: Time) -> Vec<CellId> {
        let cells = self.cells.iter();
        cells
            .filter(|(_, cell)| cell.start_limit().is_some_and(|limit| now >= limit))
            .map(|(id, _)| *id)
            .collect()
    }

    /// Kills a cell because of its own fault. Its runs become suspects.
    fn doom(&mut self, id: CellId, why: &str) {
        if let Some(cell) = self.cells.get_mut(&id).filter(|cell| !cell.doomed) {
            tracing::error!(cell = cell.name, why, "killing the cell");
            cell.doomed = true;
            self.port.kill(id);
        }
    }

    fn kill_overrun(&mut self, now: Time) {
        for (id, run) in self.runs.iter().filter(|(_, run)| !run.planning) {
            let Some(overrun) = run.kill_deadline.overrun(now) else {
                continue;
            };
            let Some(cell) = self.cells.get_mut(&run.cell) else {
                continue;
            };
            // If the cell is already being killed, its other runs are not to blame for its death.
            if !cell.doomed || cell.killed_at == Some(now) {
                tracing::warn!(cell = cell.name, job = %run.job, why = overrun.as_str(), "a run did not end; killing its cell");
                cell.doomed = true;
                cell.killed_at = Some(now);
                cell.culprits.push((*id, overrun));
                self.port.kill(run.cell);
            }
        }
    }
}

impl Run {
    /// Takes what the attempt writes at its end, if its outcome is that it completed.
    pub fn take_writes(&self, outcome: &Outcome) -> Option<Box<Writes>> {
        match outcome {
            Outcome::Completed { .. } => self.writes.as_ref()?.take(),
            _ => None,
        }
    }

    /// Returns how long the run has executed at `now`, in milliseconds.
    pub fn ran_ms(&self, now: Time) -> u64 {
        now.since_ms(self.started_at)
    }
}
