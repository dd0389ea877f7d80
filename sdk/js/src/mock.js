// A mock host for tests of handlers in plain Node.

import { Ctx } from './ctx.js';
import { HttpError, SqlError, StoreError } from './errors.js';
import { call } from './handlers.js';
import { answers } from './replay.js';
import { asJson } from './values.js';

const encode = (value) => new TextEncoder().encode(JSON.stringify(value));
const decode = (value) => JSON.parse(new TextDecoder().decode(value));
const keyOf = (space, key) => JSON.stringify([space ?? null, key]);
const same = (one, other) => String(one) === String(other);

/** The longest time for which a key of a limit is held, in milliseconds. */
const HOLD_MS_MAX = 86_400_000;

/** Takes the place of the host in a test, and records what the handler does. */
export class MockHost {
  progress = [];
  logs = [];
  requests = [];
  enqueued = [];
  enqueuedNow = [];
  holds = [];
  statements = [];
  artifacts = new Map();
  sleptMs = 0;
  #options;
  #reason;
  #checksLeft = 0;
  #values = new Map();
  #own = new Map();
  #keptJobs = 0;
  #ownArtifacts = [];
  #files = new Map();
  #reading = new Map();
  #opened = 0;
  #transactions = [];

  constructor(options = {}) {
    const { replay } = options;
    this.#options = replay === undefined ? options : { ...options, answer: answers(replay) };
    const { attempt = 1, attributes = {}, state = {}, files = {} } = options;
    for (const [name, content] of Object.entries(files)) {
      this.#files.set(name, typeof content === 'string' ? new TextEncoder().encode(content) : content);
    }
    this.job = {
      jobId: 'test',
      requestId: `test-${attempt}`,
      function: '',
      queue: '',
      protocol: 'test',
      attempt,
      enqueuedAt: '',
      trace: [],
      attributes: Object.entries(attributes),
    };
    for (const [key, value] of Object.entries(state)) this.#values.set(keyOf(undefined, key), encode(value));
  }

  /** The context to call a handler with. */
  get ctx() {
    return new Ctx(this.job, this.#offered);
  }

  /** Calls a handler as one attempt: what it has enqueued and set is kept if it completes, and dropped if not. */
  async run(run, params) {
    return this.#attempt(() => run(this.ctx, params));
  }

  /** Calls a handler by its name as the host does, with JSON, as one attempt. */
  async call(name, params) {
    this.job.function = name;
    return JSON.parse(await this.#attempt(() => call(this.job, asJson(params ?? null), this.#offered)));
  }

  /** Asks the handler to stop, at its next check for cancellation or after some. */
  cancel(reason, { afterChecks = 0 } = {}) {
    this.#reason = reason;
    this.#checksLeft = afterChecks;
  }

  /** Returns what the handler keeps under a key. */
  state(key) {
    const value = this.#value(keyOf(undefined, key));
    return value === undefined ? undefined : decode(value);
  }

  async #attempt(run) {
    let completed = false;
    try {
      const result = await run();
      completed = true;
      return result;
    } finally {
      if (completed) {
        this.#keptJobs = this.enqueued.length;
        for (const [key, value] of this.#own) this.#storeNow(key, value);
        for (const { name, chunks, closed } of this.#ownArtifacts) if (closed) this.artifacts.set(name, Uint8Array.from(chunks.flat()));
      } else {
        this.enqueued.length = this.#keptJobs;
      }
      this.#own.clear();
      this.#ownArtifacts = [];
    }
  }

  /** What the host offers to handlers. */
  get #offered() {
    return {
      artifacts: {
        create: (name) => {
          this.#checkStore();
          return this.#ownArtifacts.push({ name, chunks: [] }) - 1;
        },
        write: (number, content) => void this.#ownArtifacts[number].chunks.push([...content]),
        close: (number) => {
          if (!this.#reading.delete(number)) this.#ownArtifacts[number].closed = true;
        },
        open: (name) => {
          this.#checkStore();
          const content = this.#files.get(name);
          if (!content) {
            throw new StoreError({ kind: 'invalid-request', message: `the mock has no file ${JSON.stringify(name)}; see the option files` });
          }
          // Files that are written have numbers from 0.
          const number = -++this.#opened;
          this.#reading.set(number, content);
          return number;
        },
        read: (number, bytesMax) => {
          const content = this.#reading.get(number);
          this.#reading.set(number, content.subarray(bytesMax));
          return content.subarray(0, bytesMax);
        },
      },
      control: {
        cancelled: () => (this.#checksLeft-- > 0 ? undefined : this.#reason),
        remainingMs: () => undefined,
        progress: (percent, message) => void this.progress.push({ percent, message }),
        sleepMs: (ms) => void (this.sleptMs += ms),
      },
      log: {
        write: (level, message, fields) => void this.logs.push({ level, message, fields: Object.fromEntries(fields) }),
        writeJson: (level, message, fields) => {
          const values = fields.map(([name, value]) => [name, JSON.parse(value)]);
          this.logs.push({ level, message, fields: Object.fromEntries(values) });
        },
      },
      http: { send: (request) => this.#send(request) },
      jobs: {
        enqueue: (jobs) => this.#enqueue(jobs, this.enqueued),
        enqueueNow: (jobs) => this.#enqueue(jobs, this.enqueuedNow),
      },
      limits: { hold: (limit, ms) => this.#hold(limit, ms) },
      secrets: { reveal: (name) => this.#reveal(name) },
      sql: this.#sql(),
      state: this.#state(),
    };
  }

  #state() {
    const store = (now) => (key, value) => (now ? this.#storeNow(key, value) : void this.#own.set(key, value));
    const write = (now) => (space, key, value) => {
      this.#checkStore();
      store(now)(keyOf(space, key), value);
    };
    const compare = (now) => (space, key, expected, value) => {
      this.#checkStore();
      const fits = same(this.#value(keyOf(space, key)), expected);
      if (fits) store(now)(keyOf(space, key), value);
      return fits;
    };
    return {
      get: (space, key) => {
        this.#checkStore();
        return this.#value(keyOf(space, key));
      },
      list: (space, prefix, after) => {
        this.#checkStore();
        const known = new Map([...this.#values, ...this.#own]);
        const there = [...known].filter(([, value]) => value !== undefined).map(([key]) => JSON.parse(key));
        const keys = there.filter(([of]) => of === (space ?? null)).map(([, key]) => key);
        return keys.filter((key) => key.startsWith(prefix) && (after === undefined || key > after)).sort();
      },
      set: write(false),
      setNow: write(true),
      delete: write(false),
      deleteNow: write(true),
      compareAndSet: compare(false),
      compareAndSetNow: compare(true),
    };
  }

  #sql() {
    const query = (database, statement, params) => {
      this.statements.push({ database, statement });
      const answer = this.#options.sql?.[database];
      if (!answer) throw new SqlError({ kind: 'not-granted', message: `the mock has no database ${database}; give it \`sql\`` });
      const { columns = [], values = [], affected = 0 } = answer(statement, JSON.parse(params)) ?? {};
      return { columns, rows: JSON.stringify(values), affected };
    };
    const queryIn = (number, statement, params) => query(this.#transactions[number - 1], statement, params);
    return {
      query,
      queryIn,
      begin: (database) => {
        query(database, 'BEGIN', '[]');
        return this.#transactions.push(database);
      },
      commit: (number) => void queryIn(number, 'COMMIT', '[]'),
      rollback: (number) => void queryIn(number, 'ROLLBACK', '[]'),
    };
  }

  #send(request) {
    this.requests.push(request);
    const { answer } = this.#options;
    if (!answer) throw new HttpError({ kind: 'not-granted', message: 'the mock answers no requests; give it `answer` or `replay`' });
    const { status, headers, content } = answer(request);
    return { status, headers: [...headers], body: content };
  }

  #enqueue(jobs, kept) {
    this.#checkStore();
    const first = this.enqueued.length + this.enqueuedNow.length + 1;
    const documents = JSON.parse(jobs);
    kept.push(...documents);
    return documents.map((_, at) => `job-${first + at}`);
  }

  #hold(limit, ms) {
    const refused = (message) => new StoreError({ kind: 'invalid-request', message });
    if (!this.#options.limits?.includes(limit)) throw refused(`the job has no limit ${limit}; give the mock \`limits\``);
    if (ms > HOLD_MS_MAX) throw refused(`a key can be held for at most ${HOLD_MS_MAX} ms (24 hours)`);
    this.holds.push({ limit, ms });
  }

  #reveal(name) {
    const secret = this.#options.secrets?.[name];
    if (secret !== undefined) return secret;
    throw new StoreError({ kind: 'not-granted', message: `the mock has no secret ${name}; give it \`secrets\`` });
  }

  #checkStore() {
    if (this.#options.store === false) {
      throw new StoreError({ kind: 'not-granted', message: 'the mock has no store; see `store`' });
    }
  }

  #value(key) {
    return this.#own.has(key) ? this.#own.get(key) : this.#values.get(key);
  }

  #storeNow(key, value) {
    if (value === undefined) this.#values.delete(key);
    else this.#values.set(key, value);
  }
}
