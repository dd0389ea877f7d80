// What waits to be run: microtasks, and timers in the order of their times.

/** Tasks and their arguments, one after the other; those before `first` have run. */
let tasks = [];
let first = 0;

/** The times of timers as a heap, the earliest at 0; the timers of each time, in order; and those that may still be cleared. */
const times = [];
const due = new Map();
const timers = new Map();
let last = 0;

/** Adds a microtask with an argument. */
export const enqueue = (task, argument) => void tasks.push(task, argument);

export function queueMicrotask(task) {
  if (typeof task !== 'function') throw new TypeError('queueMicrotask needs a function');
  enqueue(task);
}

export const setTimeout = (task, ms, ...given) => add(task, ms, given, false);

export const setInterval = (task, ms, ...given) => add(task, ms, given, true);

export const setImmediate = (task, ...given) => add(task, 0, given, false);

export function clearTimeout(id) {
  const timer = timers.get(id);
  if (!timer) return;
  timers.delete(id);
  timer.task = undefined;
}

/** Runs what waits until a promise is settled. Returns its value, or throws its reason. `idle` is thrown if nothing waits. */
export function run(promise, { now, sleep, idle }) {
  let settled;
  promise.then(
    (value) => (settled = { value }),
    (reason) => (settled = { reason, failed: true }),
  );
  for (;;) {
    runMicrotasks();
    if (settled) break;
    if (!runTimer(now, sleep)) throw idle();
  }
  if (settled.failed) throw settled.reason;
  return settled.value;
}

function runMicrotasks() {
  while (first < tasks.length) {
    const [task, argument] = [tasks[first], tasks[first + 1]];
    first += 2;
    if (first > 1024 && 2 * first > tasks.length) {
      tasks.splice(0, first);
      first = 0;
    }
    task(argument);
  }
  if (first > 0) tasks = [];
  first = 0;
}

/** The clock that timers are set by. */
export const clock = { now: () => 0 };

function add(task, ms, given, repeats) {
  if (typeof task !== 'function') throw new TypeError('a timer needs a function');
  last += 1;
  const wait = Math.max(0, Number(ms) || 0);
  const timer = { id: last, at: clock.now() + wait, task, given, every: repeats ? Math.max(1, wait) : undefined };
  timers.set(last, timer);
  push(timer);
  return last;
}

/** Returns the time of the earliest timer, if there is one. It may have been cleared. */
export const earliest = () => times[0];

/** Runs the next timer, when it is time, unless it was cleared. Returns whether there was one. */
export function runTimer(now, sleep) {
  const timer = pop();
  if (!timer?.task) return timer !== undefined;
  const early = timer.at - now();
  if (early > 0) sleep(Math.ceil(early));
  const { task, given } = timer;
  if (timer.every === undefined) {
    timers.delete(timer.id);
  } else {
    timer.at = Math.max(now(), timer.at) + timer.every;
    push(timer);
  }
  task(...given);
  return true;
}

function push(timer) {
  const there = due.get(timer.at);
  if (there) return void there.waiting.push(timer);
  due.set(timer.at, { waiting: [timer], next: 0 });
  let at = times.push(timer.at) - 1;
  while (at > 0) {
    const above = (at - 1) >> 1;
    if (times[above] <= timer.at) break;
    times[at] = times[above];
    at = above;
  }
  times[at] = timer.at;
}

function pop() {
  if (times.length === 0) return undefined;
  const first = due.get(times[0]);
  const timer = first.waiting[first.next];
  first.next += 1;
  if (first.next === first.waiting.length) {
    due.delete(times[0]);
    removeEarliest();
  }
  return timer;
}

function removeEarliest() {
  const moved = times.pop();
  if (times.length === 0) return;
  let at = 0;
  for (;;) {
    let below = 2 * at + 1;
    if (below >= times.length) break;
    if (times[below + 1] < times[below]) below += 1;
    if (moved <= times[below]) break;
    times[at] = times[below];
    at = below;
  }
  times[at] = moved;
}
