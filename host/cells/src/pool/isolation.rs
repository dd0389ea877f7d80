//! Cells of one component each. Such a cell gets its component with its first run, never gets another, and
//! ends after a while without runs. One more cell is started ahead of its component.

use host_core::cell::ComponentKey;
use host_core::time::Time;
use serde::Deserialize;

use super::cell::{Cell, Kind};
use super::{Pool, Shape};
use crate::port::{CellId, CellPort};

/// How many component cells there may be for each configured cell.
const CELLS_FACTOR: usize = 4;

/// The lower bound for the maximum number of component cells.
const CELLS_MIN: usize = 16;

/// How long a component cell may be idle before it ends, in milliseconds.
const IDLE_MS: u64 = 60_000;

/// Which runs share a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// All runs share cells.
    #[default]
    Shared,
    /// Only runs of the same component share a cell.
    Component,
}

impl Isolation {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Component => "component",
        }
    }

    /// Returns how many cells may take runs concurrently where `cells` are configured.
    pub fn cells_max(self, cells: usize) -> usize {
        match self {
            Self::Shared => cells,
            Self::Component => cells.saturating_mul(CELLS_FACTOR).max(CELLS_MIN),
        }
    }
}

impl Shape {
    fn cells_max(self) -> usize {
        self.isolation.cells_max(self.cells)
    }

    /// Returns how many cells are started before there are runs.
    pub(super) fn cells_at_start(self) -> usize {
        match self.isolation {
            Isolation::Shared => self.cells,
            Isolation::Component => 1,
        }
    }
}

impl<P: CellPort> Pool<P> {
    /// Sets how many components are deployed.
    pub fn set_components(&mut self, components: usize) {
        self.components = components;
    }

    /// Returns how many more runs the cells of components can take now, whatever their components
    /// are.
    pub(super) fn free_for_components(&self) -> usize {
        let spare = self.spare().and_then(|id| self.cells.get(&id));
        let has_spare = spare.is_some_and(|cell| cell.ready);
        let takes_runs = |cell: &Cell| cell.ready && !cell.doomed && cell.kind != Kind::Apart;
        if !self.cells.values().any(takes_runs) || (self.hindered && !has_spare) {
            return 0;
        }
        let bound = || self.cells.values().filter(|cell| cell.is_bound());
        let slots = self.shape.cells * self.shape.slots as usize;
        let free = slots.saturating_sub(bound().map(|cell| cell.runs.len()).sum());
        let cells_max = self.shape.cells_max();
        // A component whose cells are full may get more, up to the number of shared cells.
        if self.components + self.shape.cells <= cells_max {
            return free;
        }
        let busy = bound().filter(|cell| !cell.runs.is_empty()).count();
        free.min(cells_max.saturating_sub(busy))
    }

    /// Returns a cell for a run of `component`. Starts one if there is none with room.
    pub(super) fn cell_of(&mut self, now: Time, component: ComponentKey) -> CellId {
        let kind = Kind::Bound { component };
        let mut mine = 0;
        let mut with_room: Option<(usize, CellId)> = None;
        for (id, cell) in &self.cells {
            if cell.kind != kind || cell.doomed {
                continue;
            }
            mine += 1;
            let load = (cell.runs.len(), *id);
            if cell.has_room() && with_room.is_none_or(|least| load < least) {
                with_room = Some(load);
            }
        }
        if let Some((runs, id)) = with_room
            && (runs == 0 || !self.may_have_another(mine))
        {
            return id;
        }
        if self.bound() >= self.shape.cells_max() {
            self.retire_longest_idle();
        }
        let id = match self.spare() {
            Some(id) => id,
            None => self.open(now, kind),
        };
        if let Some(cell) = self.cells.get_mut(&id) {
            if let Kind::Shared { index } = cell.kind {
                self.respawns[index].release(cell.ready);
            }
            cell.kind = kind;
        }
        id
    }

    /// Returns whether a step of `component` can have a cell.
    pub(super) fn has_cell_for(&self, component: ComponentKey) -> bool {
        let kind = Kind::Bound { component };
        let mut bound = self.cells.values().filter(|cell| cell.is_bound());
        let is_free = |cell: &Cell| cell.runs.is_empty() || (cell.kind == kind && cell.has_room());
        self.bound() < self.shape.cells_max() || bound.any(is_free)
    }

    /// Ends cells that have been idle for long, and cells whose component is no longer needed.
    pub(super) fn retire_idle(&mut self, is_due: impl Fn(&Cell) -> bool) {
        let idle = self
            .cells
            .iter()
            .filter(|(_, cell)| cell.is_bound() && cell.runs.is_empty());
        let due: Vec<CellId> = idle
            .filter(|(_, cell)| is_due(cell))
            .map(|(id, _)| *id)
            .collect();
        for id in due {
            self.retire(id);
        }
    }

    fn retire(&mut self, id: CellId) {
        if let Some(cell) = self.cells.get_mut(&id) {
            tracing::debug!(cell = cell.name, "the cell is idle");
            cell.doomed = true;
            self.port.kill(id);
        }
    }

    fn retire_longest_idle(&mut self) {
        let idle = self
            .cells
            .iter()
            .filter(|(_, cell)| cell.is_bound() && cell.runs.is_empty());
        let longest = idle.min_by_key(|(_, cell)| cell.idle_since);
        if let Some(id) = longest.map(|(id, _)| *id) {
            self.retire(id);
        }
    }

    /// Returns whether a component whose cells are all busy gets another, so that it uses more than
    /// one core.
    fn may_have_another(&self, cells: usize) -> bool {
        let spare = self.spare().and_then(|id| self.cells.get(&id));
        let is_ready = spare.is_some_and(|cell| cell.ready);
        is_ready && cells < self.shape.cells && self.bound() < self.shape.cells_max() / 2
    }

    /// Returns how many cells have a component.
    fn bound(&self) -> usize {
        self.cells.values().filter(|cell| cell.is_bound()).count()
    }

    /// Returns the cell that has no component yet.
    fn spare(&self) -> Option<CellId> {
        let mut cells = self.cells.iter();
        let is_spare = |cell: &Cell| matches!(cell.kind, Kind::Shared { .. }) && !cell.doomed;
        cells
            .find(|(_, cell)| is_spare(cell))
            .map(|(id, _)| *id)
            .filter(|_| self.shape.isolation == Isolation::Component)
    }
}

impl Cell {
    fn has_room(&self) -> bool {
        self.runs.len() < self.slots_max as usize
    }

    fn is_bound(&self) -> bool {
        matches!(self.kind, Kind::Bound { .. }) && !self.doomed
    }

    /// Returns when an idle cell ends. `None` if it has runs or is not a component cell.
    pub(super) fn retires_at(&self) -> Option<Time> {
        (self.is_bound() && self.runs.is_empty()).then(|| self.idle_since.plus_ms(IDLE_MS))
    }
}
