// What waits to be run: microtasks, and timers in the order of their times.

const microtasks = [];
let timers = [];
let last = 0;
let now = 0;

export const queueMicrotask = (task) => void microtasks.push(task);

export function setTimeout(task, ms = 0, ...given) {
  last += 1;
  timers.push({ id: last, at: now + Math.max(0, Number(ms) || 0), task: () => task(...given) });
  return last;
}

export const clearTimeout = (id) => void (timers = timers.filter((timer) => timer.id !== id));

/** Runs what waits until a promise is settled. Returns its value, or throws its reason. */
export function run(promise, sleep) {
  let settled;
  promise.then(
    (value) => (settled = { value }),
    (reason) => (settled = { reason, failed: true }),
  );
  while (!settled) {
    if (microtasks.length > 0) microtasks.shift()();
    else if (timers.length > 0) next(sleep);
    else throw new Error('the handler waits for something that never happens');
  }
  if (settled.failed) throw settled.reason;
  return settled.value;
}

function next(sleep) {
  timers.sort((one, other) => one.at - other.at || one.id - other.id);
  const timer = timers.shift();
  if (timer.at > now) sleep(Math.ceil(timer.at - now));
  now = Math.max(now, timer.at);
  timer.task();
}
