// The exports of a component in StarlingMonkey, which runs promises itself.

import { attempt, describe, failed } from './component.js';
import { clearTimeout, clock, earliest, runTimer, setInterval, setTimeout } from './quickjs/queue.js';

// Each of the engine's own timers is a resource of the host, of which an attempt has a thousand. Ours share one.
const own = { setTimeout: globalThis.setTimeout, clearTimeout: globalThis.clearTimeout };
let armed;
clock.now = Date.now;

function arm() {
  const at = earliest();
  if (at === undefined || armed?.at <= at) return;
  if (armed) own.clearTimeout(armed.id);
  armed = { at, id: own.setTimeout(runDue, Math.max(0, at - clock.now())) };
}

function runDue() {
  armed = undefined;
  try {
    for (const now = clock.now(); earliest() <= now; ) runTimer(clock.now, () => {});
  } finally {
    arm();
  }
}

const armedBy = (add) =>
  (...given) => {
    const id = add(...given);
    arm();
    return id;
  };

Object.assign(globalThis, {
  clearImmediate: clearTimeout,
  clearInterval: clearTimeout,
  clearTimeout,
  navigator: { userAgent: 'host', language: 'en', languages: ['en'] },
  setImmediate: armedBy((task, ...given) => setTimeout(task, 0, ...given)),
  setInterval: armedBy(setInterval),
  setTimeout: armedBy(setTimeout),
});

// Calls that are nested too deeply are a RangeError, as in other engines.
Object.setPrototypeOf(InternalError.prototype, RangeError.prototype);
InternalError.prototype.name = 'RangeError';

export const handler = {
  describe,
  async handle(job, params) {
    try {
      return await attempt(job, params);
    } catch (thrown) {
      throw failed(thrown);
    }
  },
};
