// What a handler is given besides its params.

import { Cancelled, JobError } from './errors.js';
import { fetchWith } from './http.js';

export class Ctx {
  #host;

  constructor(job, host) {
    this.#host = host;
    this.job = job;
    this.fetch = fetchWith(host);
    this.state = new State(host);
  }

  attribute(name) {
    return this.job.attributes.find(([key]) => key === name)?.[1];
  }

  cancelled() {
    return this.#host.control.cancelled();
  }

  checkCancelled(partial) {
    if (this.cancelled() !== undefined) throw new Cancelled(partial);
  }

  remainingMs() {
    return this.#host.control.remainingMs();
  }

  progress(percent, message) {
    this.#host.control.progress(percent ?? undefined, String(message));
  }

  sleep(ms) {
    this.#host.control.sleepMs(ms);
  }

  log(level, message, fields = {}) {
    const pairs = Object.entries(fields).map(([name, value]) => [name, String(value)]);
    this.#host.log.write(level, String(message), pairs);
  }

  debug(message, fields) {
    this.log('debug', message, fields);
  }

  info(message, fields) {
    this.log('info', message, fields);
  }

  warn(message, fields) {
    this.log('warn', message, fields);
  }

  error(message, fields) {
    this.log('error', message, fields);
  }

  enqueue(job) {
    return this.enqueueAll([job])[0];
  }

  enqueueAll(jobs) {
    return jobs.length ? this.#host.jobs.enqueue(documents(jobs)) : [];
  }

  enqueueNow(job) {
    return this.enqueueAllNow([job])[0];
  }

  enqueueAllNow(jobs) {
    return jobs.length ? this.#host.jobs.enqueueNow(documents(jobs)) : [];
  }

  hold(limit, ms) {
    this.#host.limits.hold(limit, ms);
  }

  secret(name) {
    return this.#host.secrets.reveal(name);
  }
}

/** Values by key, as JSON. */
class State {
  #host;
  #space;
  #atOnce;

  constructor(host, space, atOnce = false) {
    this.#host = host;
    this.#space = space;
    this.#atOnce = atOnce;
  }

  get now() {
    return new State(this.#host, this.#space, true);
  }

  shared(space) {
    return new State(this.#host, space, this.#atOnce);
  }

  get(key) {
    const value = this.getBytes(key);
    return value === undefined ? undefined : JSON.parse(new TextDecoder().decode(value));
  }

  set(key, value) {
    this.setBytes(key, bytes(value));
  }

  delete(key) {
    const { state } = this.#host;
    if (this.#atOnce) state.deleteNow(this.#space, key);
    else state.delete(this.#space, key);
  }

  compareAndSet(key, expected, value) {
    const { state } = this.#host;
    const [old, next] = [expected, value].map((it) => (it === undefined ? undefined : bytes(it)));
    return this.#atOnce
      ? state.compareAndSetNow(this.#space, key, old, next)
      : state.compareAndSet(this.#space, key, old, next);
  }

  list(prefix = '') {
    const keys = [];
    for (;;) {
      const page = this.#host.state.list(this.#space, prefix, keys.at(-1));
      if (page.length === 0) return keys;
      keys.push(...page);
    }
  }

  getBytes(key) {
    return this.#host.state.get(this.#space, key);
  }

  setBytes(key, value) {
    const { state } = this.#host;
    if (this.#atOnce) state.setNow(this.#space, key, value);
    else state.set(this.#space, key, value);
  }
}

const NAMES = {
  uniqueKey: 'unique_key',
  delaySeconds: 'delay_seconds',
  dependsOn: 'depends_on',
};

const documents = (jobs) =>
  JSON.stringify(
    jobs.map((job) => Object.fromEntries(Object.entries(job).map(([name, value]) => [NAMES[name] ?? name, value]))),
  );

function bytes(value) {
  const text = JSON.stringify(value);
  if (text === undefined) throw new JobError('undefined has no JSON', { kind: 'invalid_state', retryable: false });
  return new TextEncoder().encode(text);
}
