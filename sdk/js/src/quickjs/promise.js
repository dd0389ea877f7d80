// Promises whose callbacks wait in a queue of ours: nothing runs those of the engine.

import { enqueue } from './queue.js';

const WAITING = 0;
const FULFILLED = 1;
const REJECTED = 2;

/** The argument that makes a promise which only this module settles. */
const PLAIN = Symbol('plain');

/** The promises that were rejected while nothing waited for them. */
const unhandled = new Set();

class OwnPromise {
  #state = WAITING;
  #value;
  #reactions;

  constructor(executor) {
    if (executor === PLAIN) return;
    if (typeof executor !== 'function') throw new TypeError('a promise needs a function that settles it');
    const { resolve, reject } = OwnPromise.#functions(this);
    try {
      executor(resolve, reject);
    } catch (thrown) {
      reject(thrown);
    }
  }

  /** Makes the functions that settle a promise; only the first call of one of them counts. */
  static #functions(promise) {
    let called = false;
    const settle = (how) => (value) => {
      if (called) return;
      called = true;
      how(promise, value);
    };
    return { resolve: settle(OwnPromise.#resolve), reject: settle(OwnPromise.#reject) };
  }

  static #resolve(promise, value) {
    if (value === promise) return OwnPromise.#reject(promise, new TypeError('a promise waits for itself'));
    if ((typeof value !== 'object' || value === null) && typeof value !== 'function') {
      return OwnPromise.#settle(promise, FULFILLED, value);
    }
    let then;
    try {
      then = value.then;
    } catch (thrown) {
      return OwnPromise.#reject(promise, thrown);
    }
    if (typeof then !== 'function') return OwnPromise.#settle(promise, FULFILLED, value);
    enqueue(OwnPromise.#adopt, { promise, value, then });
  }

  static #adopt({ promise, value, then }) {
    if (then === OwnPromise.prototype.then) return value.#react({ promise, fulfilled: undefined, rejected: undefined, run: undefined, from: undefined });
    const { resolve, reject } = OwnPromise.#functions(promise);
    try {
      then.call(value, resolve, reject);
    } catch (thrown) {
      reject(thrown);
    }
  }

  static #reject(promise, reason) {
    if (!promise.#reactions) unhandled.add(promise);
    OwnPromise.#settle(promise, REJECTED, reason);
  }

  static #settle(promise, state, value) {
    promise.#state = state;
    promise.#value = value;
    const reactions = promise.#reactions;
    promise.#reactions = undefined;
    for (const reaction of reactions ?? []) promise.#react(reaction);
  }

  /** Lets a promise be settled, or a callback be called, once this one is settled. */
  #react(reaction) {
    if (this.#state === WAITING) {
      if (this.#reactions) this.#reactions.push(reaction);
      else this.#reactions = [reaction];
      return;
    }
    if (this.#state === REJECTED) unhandled.delete(this);
    reaction.from = this;
    enqueue(OwnPromise.#call, reaction);
  }

  static #call({ from, promise, fulfilled, rejected, run }) {
    const isFulfilled = from.#state === FULFILLED;
    if (run) return OwnPromise.#resume(run, isFulfilled, from.#value);
    const callback = isFulfilled ? fulfilled : rejected;
    const settle = isFulfilled ? OwnPromise.#settleFulfilled : OwnPromise.#reject;
    if (callback === undefined) return settle(promise, from.#value);
    let value;
    try {
      value = callback(from.#value);
    } catch (thrown) {
      return OwnPromise.#reject(promise, thrown);
    }
    OwnPromise.#resolve(promise, value);
  }

  /** Continues an async function with what it has waited for. */
  static #resume(run, isFulfilled, value) {
    let step;
    try {
      step = isFulfilled ? run.steps.next(value) : run.steps.throw(value);
    } catch (thrown) {
      return OwnPromise.#reject(run.promise, thrown);
    }
    OwnPromise.#waitFor(run, step);
  }

  static #waitFor(run, step) {
    if (step.done) return OwnPromise.#resolve(run.promise, step.value);
    const awaited = OwnPromise.resolve(step.value);
    awaited.#react({ promise: undefined, fulfilled: undefined, rejected: undefined, run, from: undefined });
  }

  /** Runs an async function, which the builder has made a generator. */
  static runAsync(self, given, generator) {
    const promise = new OwnPromise(PLAIN);
    let steps;
    let step;
    try {
      steps = generator.apply(self, given);
      step = steps.next();
    } catch (thrown) {
      OwnPromise.#reject(promise, thrown);
      return promise;
    }
    OwnPromise.#waitFor({ promise, steps }, step);
    return promise;
  }

  static #settleFulfilled(promise, value) {
    OwnPromise.#settle(promise, FULFILLED, value);
  }

  then(fulfilled, rejected) {
    const promise = new OwnPromise(PLAIN);
    this.#react({ promise, fulfilled: callable(fulfilled), rejected: callable(rejected), run: undefined, from: undefined });
    return promise;
  }

  catch(rejected) {
    return this.then(undefined, rejected);
  }

  finally(callback) {
    if (typeof callback !== 'function') return this.then(callback, callback);
    return this.then(
      (value) => OwnPromise.resolve(callback()).then(() => value),
      (reason) =>
        OwnPromise.resolve(callback()).then(() => {
          throw reason;
        }),
    );
  }

  static resolve(value) {
    if (value instanceof OwnPromise && value.constructor === this) return value;
    if (this !== OwnPromise) return new this((resolve) => resolve(value));
    const promise = new OwnPromise(PLAIN);
    OwnPromise.#resolve(promise, value);
    return promise;
  }

  static reject(reason) {
    return new this((_, reject) => reject(reason));
  }

  static withResolvers() {
    const made = {};
    made.promise = new this((resolve, reject) => Object.assign(made, { resolve, reject }));
    return made;
  }

  static try(callback, ...given) {
    return new this((resolve) => resolve(callback(...given)));
  }

  static all(values) {
    return combined(values, (promise, keep, _, reject) => promise.then(keep, reject));
  }

  static allSettled(values) {
    return combined(values, (promise, keep) =>
      promise.then(
        (value) => keep({ status: 'fulfilled', value }),
        (reason) => keep({ status: 'rejected', reason }),
      ),
    );
  }

  static any(values) {
    const failed = (reasons) => OwnPromise.reject(new AggregateError(reasons, 'all promises were rejected'));
    return combined(values, (promise, keep, resolve) => promise.then((value) => resolve({ value }), keep)).then(
      (ended) => (Array.isArray(ended) ? failed(ended) : ended.value),
    );
  }

  static race(values) {
    return new OwnPromise((resolve, reject) => {
      for (const value of values) OwnPromise.resolve(value).then(resolve, reject);
    });
  }

  static get [Symbol.species]() {
    return this;
  }

  get [Symbol.toStringTag]() {
    return 'Promise';
  }

  /** Returns the reasons of promises that were rejected and that nothing has waited for since the last call. */
  static takeUnhandled() {
    const reasons = [...unhandled].map((promise) => promise.#value);
    unhandled.clear();
    return reasons;
  }
}

const callable = (callback) => (typeof callback === 'function' ? callback : undefined);

/** Waits for what is kept of each of some values. */
function combined(values, wait) {
  return new OwnPromise((resolve, reject) => {
    const promises = Array.from(values, (value) => OwnPromise.resolve(value));
    const kept = new Array(promises.length);
    let left = promises.length;
    if (left === 0) resolve(kept);
    promises.forEach((promise, at) => {
      const keep = (value) => {
        kept[at] = value;
        left -= 1;
        if (left === 0) resolve(kept);
      };
      wait(promise, keep, resolve, reject);
    });
  });
}

export const { runAsync, takeUnhandled } = OwnPromise;
delete OwnPromise.runAsync;
delete OwnPromise.takeUnhandled;
Object.defineProperty(OwnPromise, 'name', { value: 'Promise' });

export { OwnPromise as Promise };
