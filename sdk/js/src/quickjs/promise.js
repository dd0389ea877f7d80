// Promises whose callbacks wait in a queue of ours.

import { queueMicrotask } from './queue.js';

const WAITING = 0;
const FULFILLED = 1;
const REJECTED = 2;

class OwnPromise {
  #state = WAITING;
  #value;
  #waiting = [];

  constructor(executor) {
    const [resolve, reject] = once(
      (value) => this.#resolve(value),
      (reason) => this.#settle(REJECTED, reason),
    );
    try {
      executor(resolve, reject);
    } catch (thrown) {
      reject(thrown);
    }
  }

  #resolve(value) {
    if (value === this) return this.#settle(REJECTED, new TypeError('a promise waits for itself'));
    let then;
    try {
      then = isObject(value) ? value.then : undefined;
    } catch (thrown) {
      return this.#settle(REJECTED, thrown);
    }
    if (typeof then !== 'function') return this.#settle(FULFILLED, value);
    queueMicrotask(() => {
      const [resolve, reject] = once(
        (inner) => this.#resolve(inner),
        (reason) => this.#settle(REJECTED, reason),
      );
      try {
        then.call(value, resolve, reject);
      } catch (thrown) {
        reject(thrown);
      }
    });
  }

  #settle(state, value) {
    this.#state = state;
    this.#value = value;
    for (const callback of this.#waiting.splice(0)) queueMicrotask(callback);
  }

  then(fulfilled, rejected) {
    return new OwnPromise((resolve, reject) => {
      const callback = () => {
        const [given, otherwise] = this.#state === FULFILLED ? [fulfilled, resolve] : [rejected, reject];
        if (typeof given !== 'function') return otherwise(this.#value);
        try {
          resolve(given(this.#value));
        } catch (thrown) {
          reject(thrown);
        }
      };
      if (this.#state === WAITING) this.#waiting.push(callback);
      else queueMicrotask(callback);
    });
  }

  catch(rejected) {
    return this.then(undefined, rejected);
  }

  finally(callback) {
    return this.then(
      (value) => OwnPromise.resolve(callback()).then(() => value),
      (reason) =>
        OwnPromise.resolve(callback()).then(() => {
          throw reason;
        }),
    );
  }

  static resolve(value) {
    return value instanceof OwnPromise ? value : new OwnPromise((resolve) => resolve(value));
  }

  static reject(reason) {
    return new OwnPromise((_, reject) => reject(reason));
  }

  static withResolvers() {
    const made = {};
    made.promise = new OwnPromise((resolve, reject) => Object.assign(made, { resolve, reject }));
    return made;
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
}

/** Waits for what is kept of each of some values. */
function combined(values, wait) {
  return new OwnPromise((resolve, reject) => {
    const promises = [...values].map((value) => OwnPromise.resolve(value));
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

/** Makes two functions of which only the first call counts. */
function once(...functions) {
  let called = false;
  return functions.map((one) => (value) => {
    if (called) return;
    called = true;
    one(value);
  });
}

const isObject = (value) => (typeof value === 'object' && value !== null) || typeof value === 'function';

Object.defineProperty(OwnPromise, 'name', { value: 'Promise' });

export { OwnPromise as Promise };
