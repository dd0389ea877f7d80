// The client: what users call. It knows no HTTP.

import { operations } from './api.js';
import { JobCancelled, JobFailed, ResultWithheld, WaitTimeout } from './errors.js';
import { ENDED, Events } from './events.js';
import { resolve } from './settings.js';
import { filled, sleep, Transport } from './transport.js';

export * from './errors.js';

const JOBS = '/api/v1/jobs';
const ARRAY_JOBS_MAX = 1_000;
const ARRAY_BYTES_MAX = 4 << 20;
const WAIT_MS_MAX = 60_000;

/** Makes a function of each operation: its arguments are the places in its path, the body and the query. */
function apiOf(transport) {
  const call = ([method, path, hasBody, hasQuery]) => (...given) => {
    const places = given.splice(0, path.split('{').length - 1);
    const body = hasBody ? given.shift() : method === 'POST' ? {} : undefined;
    const sent = body === undefined ? undefined : JSON.stringify(body);
    return transport.send(method, filled(path, places, hasQuery ? given.shift() : {}), sent);
  };
  const each = (object, f) => Object.fromEntries(Object.entries(object).map(([key, value]) => [key, f(value)]));
  return each(operations, (group) => each(group, call));
}

/** Gives a job a key with which the host accepts it once, unless it has a key. */
function keyed(job) {
  if (job.unique || job.unique_key) return job;
  return { ...job, unique: { key: `client-${crypto.randomUUID()}`, scope: 'retained' } };
}

export class Client {
  #transport;

  constructor(options = {}) {
    const settings = resolve(options);
    this.server = settings.server;
    this.#transport = new Transport(settings, options.patienceMs ?? 30_000);
    this.api = apiOf(this.#transport);
  }

  enqueue(handler, params = null, options = {}) {
    return this.#enqueue(keyed({ handler, params, ...options }));
  }

  async enqueueAndWait(handler, params = null, { timeoutMs, ...options } = {}) {
    const { id } = await this.enqueue(handler, params, options);
    return this.result(id, { timeoutMs });
  }

  enqueueArray(jobs) {
    return this.#enqueue(Array.from(jobs, keyed));
  }

  async enqueueMany(jobs, accepted = () => {}) {
    let [total, size, array] = [0, 0, []];
    for await (const given of jobs) {
      const job = keyed(given);
      const named = [...(job.depends_on ?? []).map((it) => it.job ?? it), job.batch];
      if (named.some((it) => typeof it === 'string' && it.startsWith('#'))) {
        throw new TypeError('jobs of different requests cannot name each other: use enqueueArray for `#n`');
      }
      // A character is at most three bytes for each unit of its text.
      const length = 3 * JSON.stringify(job).length + 1;
      if (array.length === ARRAY_JOBS_MAX || (array.length > 0 && size + length > ARRAY_BYTES_MAX)) {
        await accepted(await this.#enqueue(array));
        [size, array] = [0, []];
      }
      array.push(job);
      size += length;
      total += 1;
    }
    if (array.length > 0) await accepted(await this.#enqueue(array));
    return total;
  }

  #enqueue(body) {
    const repeatable = [body].flat().every((job) => job.unique?.scope === 'retained');
    return this.#transport.send('POST', JOBS, JSON.stringify(body), { repeatable });
  }

  job(id) {
    return this.api.jobs.show(id);
  }

  async wait(id, { timeoutMs = Infinity } = {}) {
    const end = performance.now() + timeoutMs;
    for (;;) {
      const began = performance.now();
      const waitMs = Math.max(0, Math.min(WAIT_MS_MAX, end - began));
      const path = filled(`${JOBS}/{id}/wait`, [id], { timeout_seconds: Math.round(waitMs) / 1_000 });
      const job = await this.#transport.send('GET', path, undefined, { waitMs });
      if (ENDED.includes(job.state)) return job;
      const now = performance.now();
      if (now >= end) throw new WaitTimeout(job, timeoutMs);
      // A host that stops answers early.
      await sleep(Math.max(0, Math.min(200, began + waitMs - now)));
    }
  }

  async result(id, options) {
    const job = await this.wait(id, options);
    if (job.state === 'completed') {
      if (job.withheld?.includes('result')) throw new ResultWithheld(job);
      return job.result;
    }
    throw job.state === 'cancelled' ? new JobCancelled(job) : new JobFailed(job);
  }

  jobs(filter) {
    return this.items((query) => this.api.jobs.list(query), filter);
  }

  log(id) {
    return this.items((query) => this.api.jobs.logs(id, query));
  }

  attempts(id) {
    return this.items((query) => this.api.jobs.attempts(id, query));
  }

  async *items(operation, query = {}) {
    for (let cursor = query.cursor; cursor !== null; ) {
      const page = await operation({ ...query, cursor });
      yield* page.items;
      cursor = page.next_cursor ?? null;
    }
  }

  cancel(id, { reason, graceMs } = {}) {
    const grace_seconds = graceMs === undefined ? undefined : graceMs / 1_000;
    return this.api.jobs.cancel(id, { reason, grace_seconds });
  }

  retry(id, { force = false } = {}) {
    return this.api.jobs.retry(id, { force });
  }

  events(options) {
    return new Events(this.#transport, this.api, options).connect();
  }

  upload(content, { contentType = 'application/octet-stream' } = {}) {
    return this.#transport.send('PUT', '/api/v1/artifacts', content, { waitMs: 3_600_000, contentType });
  }

  deploy(name, component, { manifest, acceptGrants, force } = {}) {
    const form = new FormData();
    form.set('component', new Blob([component]));
    if (manifest !== undefined) form.set('manifest', manifest);
    const path = filled('/api/v1/components/{name}', [name], { accept_grants: acceptGrants, force });
    // The first components of a build take minutes to compile.
    return this.#transport.send('PUT', path, form, { waitMs: 600_000 });
  }
}
