// Events, and signals that something should stop.

export class Event {
  #type;
  #cancelable;
  defaultPrevented = false;
  target = null;
  currentTarget = null;
  stopped = false;

  constructor(type, { bubbles = false, cancelable = false } = {}) {
    this.#type = String(type);
    this.#cancelable = cancelable;
    this.bubbles = bubbles;
    this.timeStamp = performance.now();
  }

  get type() {
    return this.#type;
  }

  get cancelable() {
    return this.#cancelable;
  }

  preventDefault() {
    if (this.#cancelable) this.defaultPrevented = true;
  }

  stopPropagation() {}

  stopImmediatePropagation() {
    this.stopped = true;
  }
}

export class CustomEvent extends Event {
  constructor(type, init = {}) {
    super(type, init);
    this.detail = init.detail ?? null;
  }
}

export class EventTarget {
  #listeners = [];

  addEventListener(type, listener, options) {
    const { once = false, signal } = typeof options === 'object' && options ? options : {};
    if (!listener || signal?.aborted) return;
    if (this.#listeners.some((it) => it.type === type && it.listener === listener)) return;
    this.#listeners.push({ type, listener, once });
    signal?.addEventListener('abort', () => this.removeEventListener(type, listener), { once: true });
  }

  removeEventListener(type, listener) {
    this.#listeners = this.#listeners.filter((it) => it.type !== type || it.listener !== listener);
  }

  dispatchEvent(event) {
    event.target = event.currentTarget = this;
    this[`on${event.type}`]?.(event);
    for (const { type, listener, once } of this.#listeners) {
      if (event.stopped) break;
      if (type !== event.type) continue;
      if (once) this.removeEventListener(type, listener);
      if (typeof listener === 'function') listener.call(this, event);
      else listener.handleEvent(event);
    }
    return !event.defaultPrevented;
  }
}

/** When signals stop by themselves. */
const deadlines = new WeakMap();

/** Returns how many milliseconds are left until a signal stops by itself, if it does. */
export const timeLeft = (signal) =>
  deadlines.has(signal) ? Math.max(1, Math.ceil(deadlines.get(signal) - performance.now())) : undefined;

/** What makes a signal: only this module does. */
const MADE = Symbol('made');

export class AbortSignal extends EventTarget {
  #aborted = false;
  #reason;
  onabort = null;

  constructor(made) {
    if (made !== MADE) throw new TypeError('an AbortSignal is made by an AbortController');
    super();
  }

  get aborted() {
    return this.#aborted;
  }

  get reason() {
    return this.#reason;
  }

  throwIfAborted() {
    if (this.#aborted) throw this.#reason;
  }

  static stop(signal, reason = new DOMException('This operation was aborted', 'AbortError')) {
    if (signal.#aborted) return;
    signal.#aborted = true;
    signal.#reason = reason;
    signal.dispatchEvent(new Event('abort'));
  }

  static abort(reason) {
    const signal = new AbortSignal(MADE);
    stop(signal, reason);
    return signal;
  }

  static timeout(ms) {
    const signal = new AbortSignal(MADE);
    deadlines.set(signal, performance.now() + Number(ms));
    const reason = () => new DOMException('The operation was aborted due to timeout', 'TimeoutError');
    setTimeout(() => stop(signal, reason()), ms);
    return signal;
  }

  static any(signals) {
    const signal = new AbortSignal(MADE);
    for (const one of signals) {
      if (deadlines.has(one)) deadlines.set(signal, Math.min(deadlines.get(one), deadlines.get(signal) ?? Infinity));
      if (one.aborted) stop(signal, one.reason);
      else one.addEventListener('abort', () => stop(signal, one.reason), { once: true });
    }
    return signal;
  }
}

const { stop } = AbortSignal;
delete AbortSignal.stop;

export class AbortController {
  signal = new AbortSignal(MADE);

  abort(reason) {
    stop(this.signal, reason);
  }
}
