//! Limits: setting them, and the gate that jobs pass before they are available.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use host_core::id::JobId;
use host_core::job::{KeyOfJob, Lifecycle, LimitKey, NewJob, State};
use host_core::name::Name;
use host_core::time::Time;
use host_core::transition::Input;

use super::{
    HOLD_MS_MAX, KeptLimit, KeyHold, KeyUse, LIMITS_MAX, Limit, LimitChange, LimitRefusal, Limits,
    RemoveLimit, SetLimit, WhenFull,
};
use crate::{Batch, Rows, Stop, StoreError};

/// How many waiting jobs the commands of a batch move at most, beside those of a tick.
pub(crate) const MOVED_MAX: usize = 1_024;

/// How many keys of changed limits a tick looks at.
const SLICE: usize = 256;

/// When ticks continue changed limits: always. The time 0 means cascades.
pub const AT_ONCE: Time = Time(1);

/// When to look again for waiting jobs that other hosts have locked, in milliseconds.
const LOCKED_PAUSE_MS: u64 = 50;

/// The limits that concern new jobs, by queue, executor and handler: the jobs of a batch have few of them, and there may be
/// many limits.
#[derive(Default)]
pub(crate) struct Concerning {
    limits: Arc<Limits>,
    numbers: BTreeMap<(Name, Option<Name>, Name), Vec<u64>>,
    /// The keys of jobs that were read, until the jobs are accepted.
    read: BTreeMap<JobId, Vec<KeyOfJob>>,
}

impl Concerning {
    /// Returns the keys of a new job, and what it takes of each.
    pub(crate) fn keys_of(
        &mut self,
        limits: &Arc<Limits>,
        new: &NewJob,
    ) -> Result<Vec<KeyOfJob>, LimitRefusal> {
        if !Arc::ptr_eq(&self.limits, limits) {
            *self = Self::default();
            self.limits = Arc::clone(limits);
        }
        if let Some(keys) = self.read.remove(&new.id) {
            return Ok(keys);
        }
        let target = (new.queue.clone(), new.executor.clone(), new.handler.clone());
        let entry = self.numbers.entry(target);
        let numbers = entry.or_insert_with(|| limits.concerning(new));
        limits.keys_of(new, numbers)
    }
}

impl<R: Rows> Batch<'_, R> {
    pub(super) fn set_limit(&mut self, SetLimit { limit: new }: &SetLimit) -> Result<(), Stop> {
        self.rows.lock_limits()?;
        let limits = self.rows.limits()?;
        let before = limits.named(&new.name);
        let number = match before {
            Some(before) if before.limit.source != new.source => {
                return Err(LimitRefusal::Owned {
                    limit: new.name.clone(),
                    owner: before.limit.source.clone(),
                }
                .into());
            }
            Some(before) if before.limit == **new => return Ok(()),
            Some(before) => before.number,
            None if limits.0.len() >= LIMITS_MAX => {
                return Err(LimitRefusal::TooMany { limit: LIMITS_MAX }.into());
            }
            // A time, so that it is never used again.
            None => {
                let last = limits.0.keys().next_back().copied().unwrap_or_default();
                u64::try_from(self.now.0).unwrap_or_default().max(last + 1)
            }
        };
        self.write_limit(&KeptLimit {
            number,
            limit: Limit::clone(new),
            is_removed: false,
            cursor: before.map(|_| String::new()),
        })
    }

    fn write_limit(&mut self, kept: &KeptLimit) -> Result<(), Stop> {
        self.rows.put(kept)?;
        Ok(self.rows.note_limit(kept.number, LimitChange::Set(kept))?)
    }

    pub(super) fn remove_limit(
        &mut self,
        RemoveLimit { limit: name }: &RemoveLimit,
    ) -> Result<(), Stop> {
        self.rows.lock_limits()?;
        let limits = self.rows.limits()?;
        let before = limits
            .named(name)
            .ok_or_else(|| LimitRefusal::Unknown(name.clone()))?;
        self.write_limit(&KeptLimit {
            is_removed: true,
            cursor: None,
            ..before.clone()
        })
    }

    /// Holds a key of a running job.
    pub(super) fn hold(&mut self, asked: &KeyHold) -> Result<Box<Lifecycle>, Stop> {
        let job = self.get(asked.job)?;
        self.rows.lock_limits()?;
        let limits = self.rows.limits()?;
        let number = limits.named(&asked.limit).map(|kept| kept.number);
        let mut keys = job.limits.keys.iter();
        let held = keys
            .find(|it| Some(it.key.limit) == number)
            .ok_or_else(|| LimitRefusal::NotOfJob(asked.limit.clone()))?;
        let after = self.apply(&job, &Input::Hold(&asked.fence))?;
        let until = self.now.plus_ms(asked.ms.min(HOLD_MS_MAX));
        self.change_key(&held.key, |used, _, _| used.hold(until))?;
        Ok(Box::new(after))
    }

    /// Reads the keys of new jobs together. What refuses a job is found again when it is accepted.
    pub(crate) fn read_keys<'n>(
        &mut self,
        jobs: impl Iterator<Item = &'n NewJob>,
    ) -> Result<(), StoreError> {
        let limits = self.rows.limits()?;
        if limits.0.is_empty() {
            return Ok(());
        }
        let mut keys = BTreeSet::new();
        for new in jobs {
            if let Ok(of_job) = self.concerning.keys_of(&limits, new) {
                keys.extend(of_job.iter().map(|it| it.key.clone()));
                self.concerning.read.insert(new.id, of_job);
            }
        }
        if keys.is_empty() {
            return Ok(());
        }
        self.rows.lock_limits()?;
        self.rows.read_keys(keys)
    }

    /// Returns the keys of new jobs. Refuses jobs whose limits are full and refuse jobs then.
    pub(crate) fn keys_of<'n>(
        &mut self,
        jobs: impl Iterator<Item = &'n NewJob>,
    ) -> Result<BTreeMap<JobId, Vec<KeyOfJob>>, Stop> {
        let limits = self.rows.limits()?;
        let mut keys = BTreeMap::new();
        if limits.0.is_empty() {
            return Ok(keys);
        }
        let mut starting: BTreeMap<LimitKey, KeyUse> = BTreeMap::new();
        for new in jobs {
            let of_job = self.concerning.keys_of(&limits, new)?;
            let starts = new.depends_on.is_empty() && new.run_at.is_none_or(|at| at <= self.now);
            for KeyOfJob { key, units, .. } in of_job.iter().filter(|_| starts) {
                let Some(limit) = limits.get_if(key.limit, WhenFull::Refuse) else {
                    continue;
                };
                self.rows.lock_limits()?;
                if !starting.contains_key(key) {
                    starting.insert(key.clone(), self.rows.key_use(key)?);
                }
                let used = starting.entry(key.clone()).or_default();
                let is_free = used.waiting == 0 && limit.has_room(used, *units, self.now);
                used.reserve(*units);
                if !is_free {
                    return Err(LimitRefusal::Full {
                        limit: limit.name.clone(),
                        key: key.key.to_string(),
                    }
                    .into());
                }
            }
            if !of_job.is_empty() {
                keys.insert(new.id, of_job);
            }
        }
        Ok(keys)
    }

    /// Lets a job pass its limits, or makes it wait for one of them; counts that, and what it gives back. Returns the keys
    /// that may have room then.
    pub(crate) fn pass_limits(
        &mut self,
        before: Option<&Lifecycle>,
        after: &mut Lifecycle,
    ) -> Result<Vec<KeyOfJob>, Stop> {
        if after.limits.keys.is_empty() {
            return Ok(Vec::new());
        }
        self.rows.lock_limits()?;
        let had_places = before.is_some_and(Lifecycle::has_places);
        let was_running = before.is_some_and(|job| job.state == State::Running);
        let starts = had_places && !was_running && after.state == State::Running;
        let is_back = was_running && after.state == State::Available;
        let mut freed = Vec::new();
        if starts {
            for KeyOfJob { key, units, .. } in &after.limits.keys {
                self.change_key(key, |used, limit, now| used.start(*units, limit, now))?;
            }
        } else if had_places && (is_back || !after.has_places()) {
            for KeyOfJob { key, units, .. } in &after.limits.keys {
                self.change_key(key, |used, _, _| used.release(*units, was_running))?;
            }
            freed.clone_from(&after.limits.keys);
        }
        self.update_listing(before, after)?;
        let waited = before.and_then(Lifecycle::waits_for_key).cloned();
        if after.state == State::Available && (is_back || !had_places) {
            let passes = |key: &LimitKey| is_back || waited.as_ref() == Some(key);
            if let Some(place) = self.first_full(after, passes)? {
                after.wait_for_limit(place);
            } else {
                for KeyOfJob { key, units, .. } in &after.limits.keys {
                    self.change_key(key, |used, _, _| used.reserve(*units))?;
                }
                if waited.is_some() {
                    self.rows.take_new_rank(after.id)?;
                }
            }
        }
        let waits = after.waits_with();
        // Another priority makes another job the first.
        let moves = before.is_some_and(|before| before.priority != after.priority);
        if moves || waited.as_ref() != waits.map(|it| &it.key) {
            if let Some(key) = &waited {
                self.change_waiting(key, KeyUse::stop_waiting)?;
            }
            if let Some(KeyOfJob { key, units, .. }) = waits {
                self.change_waiting(key, |used| used.wait(*units))?;
            }
        }
        Ok(freed)
    }

    /// Cancels the jobs that wait for the key that a new job waits for, if its limit says so. What the batch cannot move any
    /// more keeps waiting.
    pub(crate) fn replace_waiting(&mut self, new: &Lifecycle) -> Result<(), Stop> {
        let Some(key) = new.waits_for_key() else {
            return Ok(());
        };
        let limits = self.rows.limits()?;
        let Some(limit) = limits.get_if(key.limit, WhenFull::ReplaceWaiting) else {
            return Ok(());
        };
        let reason = format!("replaced by job {} under the limit {}", new.id, limit.name);
        let cancel = Input::Cancel {
            reason: Some(&reason),
            grace_ms: None,
        };
        while self.moves_left > 0
            && let Some(waiting) = self.rows.first_waiting(key)?
        {
            self.moves_left -= 1;
            if let Some(waiting) = self.readable_job(waiting)? {
                self.apply(&waiting, &cancel)?;
            }
        }
        Ok(())
    }

    /// Lists a job under the keys that it runs with if their limits may cancel it, until it is cancelled or does not run.
    fn update_listing(
        &mut self,
        before: Option<&Lifecycle>,
        after: &mut Lifecycle,
    ) -> Result<(), Stop> {
        let (was, is) = (before.and_then(run_of), run_of(after));
        if was == is {
            return Ok(());
        }
        let limits = self.rows.limits()?;
        for of_job in &mut after.limits.keys {
            let key = &of_job.key;
            if was.is_none() {
                let limit = limits.get_if(key.limit, WhenFull::CancelRunning);
                of_job.is_listed = limit.is_some();
            }
            if !of_job.is_listed {
                continue;
            }
            for (run, is_listed) in [(was, false), (is, true)] {
                match run {
                    None => {}
                    Some(Run::Listed { since }) => {
                        self.rows.list_running(key, since, after.id, is_listed)?;
                    }
                    Some(Run::Cancelling) => self.change_key(key, |used, _, _| {
                        used.cancelling = if is_listed {
                            used.cancelling + 1
                        } else {
                            used.cancelling.saturating_sub(1)
                        };
                    })?,
                }
            }
            of_job.is_listed = is.is_some();
        }
        Ok(())
    }

    /// Cancels the jobs that are in the way of one that waits for a key, if its limit says so.
    pub(crate) fn make_way(&mut self, new: &Lifecycle) -> Result<(), Stop> {
        let Some(key) = new.waits_for_key() else {
            return Ok(());
        };
        let limits = self.rows.limits()?;
        let Some(limit) = limits.get_if(key.limit, WhenFull::CancelRunning) else {
            return Ok(());
        };
        self.until = self.until.or_else(|| self.in_time());
        let used = self.rows.key_use(key)?;
        let to_cancel = limit.in_the_way(&used);
        self.keep_key(key, KeyUse { to_cancel, ..used }, self.now)?;
        // Otherwise ticks cancel them.
        if self.is_late() {
            return Ok(());
        }
        self.cancel_running(key)
    }

    /// Cancels as many of the jobs that run with a key as are to be cancelled and the batch may move. The key is due while some
    /// are left.
    fn cancel_running(&mut self, key: &LimitKey) -> Result<(), Stop> {
        let before = self.rows.key_use(key)?;
        if before.to_cancel == 0 {
            return Ok(());
        }
        let limits = self.rows.limits()?;
        let limit = limits.get_if(key.limit, WhenFull::CancelRunning);
        let in_the_way = limit.map_or(0, |it| it.in_the_way(&before));
        let to_cancel = before.to_cancel.min(in_the_way) as usize;
        let wanted = to_cancel.min(self.moves_left);
        let found = self.rows.listed_running(key, wanted)?;
        let (mut cancelled, is_all) = (0, found.len() < wanted);
        let name = limit.map_or("", |limit| limit.name.as_str());
        let reason = format!("a new job needs its place under the limit {name}");
        let cancel = Input::Cancel {
            reason: Some(&reason),
            grace_ms: None,
        };
        for job in found.iter().flatten() {
            self.moves_left -= 1;
            if let Some(job) = self.readable_job(*job)? {
                cancelled += 1;
                self.apply(&job, &cancel)?;
            }
        }
        let is_locked = found.iter().any(Option::is_none);
        let left = if is_all { found.len() } else { to_cancel } - cancelled;
        let earliest = self
            .now
            .plus_ms(if is_locked { LOCKED_PAUSE_MS } else { 0 });
        let to_cancel = u32::try_from(left).unwrap_or(u32::MAX);
        let used = self.rows.key_use(key)?;
        self.keep_key(key, KeyUse { to_cancel, ..used }, earliest)
    }

    /// Returns which limit of a job is full, or has jobs that wait, unless the job `passes` them.
    fn first_full(
        &mut self,
        job: &Lifecycle,
        passes: impl Fn(&LimitKey) -> bool,
    ) -> Result<Option<u8>, Stop> {
        let limits = self.rows.limits()?;
        for (place, KeyOfJob { key, units, .. }) in (0..).zip(&job.limits.keys) {
            let Some(limit) = limits.get(key.limit) else {
                continue;
            };
            let used = self.rows.key_use(key)?;
            if !limit.has_room(&used, *units, self.now) || (used.waiting > 0 && !passes(key)) {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    /// Changes which places of a key are taken. Those of a removed limit are not counted.
    fn change_key(
        &mut self,
        key: &LimitKey,
        change: impl FnOnce(&mut KeyUse, &Limit, Time),
    ) -> Result<(), Stop> {
        let limits = self.rows.limits()?;
        if let Some(limit) = limits.get(key.limit) {
            let mut used = self.rows.key_use(key)?;
            change(&mut used, limit, self.now);
            self.keep_key(key, used, self.now)?;
        }
        Ok(())
    }

    fn change_waiting(
        &mut self,
        key: &LimitKey,
        change: impl FnOnce(&mut KeyUse),
    ) -> Result<(), Stop> {
        let mut used = self.rows.key_use(key)?;
        change(&mut used);
        self.keep_key(key, used, self.now)
    }

    /// Writes how much of a key is used. It is due at `earliest` or later.
    fn keep_key(&mut self, key: &LimitKey, used: KeyUse, earliest: Time) -> Result<(), Stop> {
        let limits = self.rows.limits()?;
        let kept = match limits.get(key.limit) {
            Some(limit) if !used.is_idle(self.now) => {
                let wake_at = limit.wake_at(&used, self.now);
                Some((used, wake_at.map(|at| at.max(earliest))))
            }
            None if used.waiting > 0 => Some((used, Some(earliest))),
            _ => None,
        };
        Ok(self.rows.set_key_use(key, kept)?)
    }

    /// Lets jobs that wait for a key pass, as long as it has room and the batch may move more.
    pub(crate) fn serve(&mut self, key: &LimitKey) -> Result<(), Stop> {
        let limits = self.rows.limits()?;
        let limit = limits.get(key.limit);
        loop {
            let used = self.rows.key_use(key)?;
            let now = self.now;
            let has_room = |units| limit.is_none_or(|limit| limit.has_room(&used, units, now));
            if used.waiting == 0 || !has_room(used.next_units) || self.moves_left == 0 {
                return Ok(());
            }
            let Some(first) = self.rows.first_waiting(key)? else {
                let earliest = self.now.plus_ms(LOCKED_PAUSE_MS);
                return self.keep_key(key, used, earliest);
            };
            self.moves_left -= 1;
            let waiting = self.waiting_job(first, key);
            let Some((job, units)) = self.readable_part(first, waiting)? else {
                continue;
            };
            if !has_room(units) {
                return self.change_waiting(key, |used| used.next_units = units);
            }
            self.step(&job, &Input::Admit)?;
            if self.is_late() {
                return Ok(());
            }
        }
    }

    /// Returns a job that waits for a key according to the store, and its units.
    fn waiting_job(&mut self, id: JobId, key: &LimitKey) -> Result<(Lifecycle, u32), StoreError> {
        let job = self.rows.job(id)?;
        let waiting = job.and_then(|job| {
            let units = job.waits_with().filter(|it| it.key == *key)?.units;
            Some((job, units))
        });
        waiting.ok_or_else(|| StoreError::Unreadable {
            what: format!("job {id}"),
            message: format!("it does not wait for the key {key} of a limit"),
        })
    }

    /// Handles keys that are due, and changed limits. Returns how many jobs and keys it has handled, at least one if
    /// more is left.
    pub(crate) fn go_on_with_limits(&mut self, limit: usize) -> Result<usize, Stop> {
        if limit == 0 || self.rows.limits()?.0.is_empty() {
            return Ok(0);
        }
        self.rows.lock_limits()?;
        let moves_left = std::mem::replace(&mut self.moves_left, limit);
        let mut keys = 0;
        for key in self.rows.due_keys(self.now, limit)? {
            keys += 1;
            self.recheck_key(&key)?;
            if self.is_late() {
                break;
            }
        }
        for kept in self.rows.changed_limits(SLICE)? {
            if self.moves_left == 0 || self.is_late() {
                break;
            }
            keys += self.recheck_keys(&kept)?;
        }
        let moved = limit - std::mem::replace(&mut self.moves_left, moves_left);
        Ok(moved.max(keys))
    }

    /// Finds out anew when a key is due, if it is still used, and lets jobs pass.
    fn recheck_key(&mut self, key: &LimitKey) -> Result<(), Stop> {
        let used = self.rows.key_use(key)?;
        self.keep_key(key, used, self.now)?;
        self.cancel_running(key)?;
        self.serve(key)
    }

    /// Rechecks the next keys of a limit that was changed or removed. Returns how many.
    fn recheck_keys(&mut self, kept: &KeptLimit) -> Result<usize, Stop> {
        let number = kept.number;
        let from = kept.cursor.as_deref().filter(|_| !kept.is_removed);
        let keys = self
            .rows
            .keys_from(number, from.unwrap_or_default(), SLICE)?;
        let mut handled = 0;
        for key in &keys {
            self.recheck_key(key)?;
            handled += 1;
            if self.is_late() {
                break;
            }
        }
        if kept.is_removed && keys.is_empty() {
            self.rows.remove::<KeptLimit>(number)?;
            self.rows.note_limit(number, LimitChange::Deleted)?;
        } else if !kept.is_removed {
            let last = keys.last().filter(|_| keys.len() == SLICE);
            let next = keys.get(handled).or(last);
            let moved = KeptLimit {
                cursor: next.map(|next| next.key.to_string()),
                ..kept.clone()
            };
            self.rows.put(&moved)?;
            self.rows
                .note_limit(number, LimitChange::CursorMoved(&moved))?;
        }
        Ok(handled)
    }
}

/// How a job runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    /// It can be cancelled for a new job.
    Listed {
        since: Time,
    },
    Cancelling,
}

fn run_of(job: &Lifecycle) -> Option<Run> {
    let since = job.lease.as_ref()?.granted_at;
    Some(match job.cancel {
        None => Run::Listed { since },
        Some(_) => Run::Cancelling,
    })
}
