// What a handler is given besides its params.

import { Cancelled, JobError } from './errors.js';
import { fetchWith } from './http.js';
import { checkedJobs, checkedStatement, checkedValue, fieldsOf, keyOf, lineOf, nameOf } from './limits.js';
import { asJson, bytesOf, millis, shown, textOf } from './values.js';

export class Ctx {
  #host;

  constructor(job, host) {
    this.#host = host;
    this.job = job;
    this.fetch = fetchWith(host);
    this.artifacts = new Artifacts(host);
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
    const known = percent === undefined || percent === null ? undefined : Number(percent);
    if (Number.isNaN(known)) throw new TypeError(`progress: expected percent, got ${shown(percent)}`);
    this.#host.control.progress(known && Math.min(100, Math.max(0, known)), lineOf(shown(message)));
  }

  sleep(ms) {
    this.#host.control.sleepMs(millis(ms, 'sleep'));
  }

  log(level, message, fields) {
    if (!LEVELS.includes(level)) throw new TypeError(`log: expected one of ${LEVELS.join(', ')}, got ${shown(level)}`);
    this.#host.log.writeJson(level, lineOf(shown(message)), fieldsOf(fields));
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
    const given = documents(jobs);
    return given ? this.#host.jobs.enqueue(given) : [];
  }

  enqueueNow(job) {
    return this.enqueueAllNow([job])[0];
  }

  enqueueAllNow(jobs) {
    const given = documents(jobs);
    return given ? this.#host.jobs.enqueueNow(given) : [];
  }

  hold(limit, ms) {
    this.#host.limits.hold(nameOf(limit, 'hold: the limit'), millis(ms, 'hold'));
  }

  sql(name) {
    return new Sql(this.#host, nameOf(name, 'the name of a database'));
  }

  secret(name) {
    return this.#host.secrets.reveal(nameOf(name, 'the name of a secret'));
  }
}

const LEVELS = ['trace', 'debug', 'info', 'warn', 'error'];

const given = (statement, params) => {
  if (!Array.isArray(params)) throw new TypeError(`query: expected an array of values, got ${shown(params)}`);
  return checkedStatement(textOf(statement, 'a statement'), asJson(params));
};

/** What a statement returned. Iterating gives an object for each row. */
class Rows {
  constructor({ columns, rows, affected }) {
    this.columns = columns;
    this.values = JSON.parse(rows);
    this.affected = affected;
  }

  *[Symbol.iterator]() {
    for (const row of this.values) yield Object.fromEntries(this.columns.map((column, at) => [column, row[at]]));
  }
}

/** A database that the manifest names. */
class Sql {
  #host;
  #name;

  constructor(host, name) {
    this.#host = host;
    this.#name = name;
  }

  query(statement, params = []) {
    return new Rows(this.#host.sql.query(this.#name, ...given(statement, params)));
  }

  async transaction(run) {
    const { sql } = this.#host;
    const number = sql.begin(this.#name);
    const query = (statement, params = []) => new Rows(sql.queryIn(number, ...given(statement, params)));
    let result;
    try {
      result = await run({ query });
    } catch (error) {
      try {
        sql.rollback(number);
      } catch {
        // What the handler throws says more.
      }
      throw error;
    }
    sql.commit(number);
    return result;
  }
}

/** The most that is sent to the host in one call, in bytes. */
const CHUNK = 1 << 20;

/** Files that the job produces and reads. */
class Artifacts {
  #host;

  constructor(host) {
    this.#host = host;
  }

  create(name, { contentType } = {}) {
    const { artifacts } = this.#host;
    const number = artifacts.create(textOf(name, 'the name of an artifact'), contentType);
    return {
      write(content) {
        const bytes = typeof content === 'string' ? new TextEncoder().encode(content) : bytesOf(content);
        if (!bytes) throw new TypeError(`write: expected bytes or a string, got ${shown(content)}`);
        for (let at = 0; at < bytes.length; at += CHUNK) artifacts.write(number, bytes.subarray(at, at + CHUNK));
      },
      close: () => artifacts.close(number),
    };
  }

  open(name) {
    const { artifacts } = this.#host;
    const number = artifacts.open(textOf(name, 'the name of a file'));
    const pieces = function* () {
      for (let piece = artifacts.read(number, CHUNK); piece.length > 0; piece = artifacts.read(number, CHUNK)) yield piece;
    };
    const bytes = () => {
      const all = [...pieces()];
      const joined = new Uint8Array(all.reduce((sum, piece) => sum + piece.length, 0));
      let at = 0;
      for (const piece of all) {
        joined.set(piece, at);
        at += piece.length;
      }
      return joined;
    };
    return {
      [Symbol.iterator]: pieces,
      bytes,
      text: () => new TextDecoder().decode(bytes()),
      close: () => artifacts.close(number),
    };
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
    return new State(this.#host, nameOf(space, 'a shared space'), this.#atOnce);
  }

  get(key) {
    const value = this.getBytes(key);
    return value === undefined ? undefined : JSON.parse(new TextDecoder().decode(value));
  }

  set(key, value) {
    this.setBytes(key, written(value));
  }

  delete(key) {
    const { state } = this.#host;
    if (this.#atOnce) state.deleteNow(this.#space, keyOf(key));
    else state.delete(this.#space, keyOf(key));
  }

  compareAndSet(key, expected, value) {
    const { state } = this.#host;
    const [old, next] = [expected, value].map((it) => (it === undefined ? undefined : checkedValue(written(it))));
    return this.#atOnce
      ? state.compareAndSetNow(this.#space, keyOf(key), old, next)
      : state.compareAndSet(this.#space, keyOf(key), old, next);
  }

  list(prefix = '') {
    const keys = [];
    for (;;) {
      const page = this.#host.state.list(this.#space, nameOf(prefix, 'list: the prefix'), keys.at(-1));
      if (page.length === 0) return keys;
      keys.push(...page);
    }
  }

  getBytes(key) {
    return this.#host.state.get(this.#space, keyOf(key));
  }

  setBytes(key, value) {
    const { state } = this.#host;
    const bytes = checkedValue(bytesOf(value));
    if (!bytes) throw new TypeError(`setBytes: expected bytes, got ${shown(value)}`);
    if (this.#atOnce) state.setNow(this.#space, keyOf(key), bytes);
    else state.set(this.#space, keyOf(key), bytes);
  }
}

const NAMES = {
  uniqueKey: 'unique_key',
  delaySeconds: 'delay_seconds',
  dependsOn: 'depends_on',
};

/** Returns jobs as JSON, if there are any. */
function documents(jobs) {
  const list = [...jobs];
  const wrong = list.find((job) => typeof job !== 'object' || job === null || Array.isArray(job));
  if (wrong !== undefined || list.includes(undefined)) {
    throw new TypeError(`enqueue: a job is an object with a handler, got ${shown(wrong)}`);
  }
  const renamed = list.map((job) => Object.fromEntries(Object.entries(job).map(([name, value]) => [NAMES[name] ?? name, value])));
  return list.length ? checkedJobs(asJson(renamed)) : undefined;
}

function written(value) {
  const text = asJson(value);
  if (text === undefined) throw new JobError(`${shown(value)} has no JSON`, { kind: 'invalid_state', retryable: false });
  return new TextEncoder().encode(text);
}
