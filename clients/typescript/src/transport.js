// Sends requests, again if that is safe.

import { HostError, Refused, SettingsError, Unreachable } from './errors.js';

const ANSWER_MS = 60_000;

// The host did not carry these out, as docs/errors.md says. After the others with these statuses it may have.
const WITHOUT_EFFECT = [
  'too_many_wrong_tokens', 'rate_limited', 'share_used', 'busy', 'store_away', 'cascade_unfinished',
];
const PASSING = [429, 503, 504];

// Codes of failures before a request was sent.
const NOT_SENT = ['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'UND_ERR_CONNECT_TIMEOUT'];

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** The pauses between repetitions: each longer than the one before, until patience is over. */
export class Pauses {
  #end;
  #next = 100;

  constructor(patienceMs) {
    this.#end = performance.now() + patienceMs;
  }

  /** Pauses, or returns that patience would be over. */
  async pause(atLeastMs = 0) {
    const ms = Math.max(this.#next * (0.8 + 0.4 * Math.random()), atLeastMs);
    if (performance.now() + ms > this.#end) return false;
    this.#next = Math.min(this.#next * 2, 5_000);
    await sleep(ms);
    return true;
  }
}

/** The way to one host. */
export class Transport {
  #fetch;
  #headers;

  constructor({ server, token, fetch }, patienceMs) {
    this.server = server;
    this.patienceMs = patienceMs;
    this.#fetch = fetch ?? globalThis.fetch;
    this.#headers = { accept: 'application/json', ...(token && { authorization: `Bearer ${token}` }) };
  }

  /** Sends a request, again as long as that is safe and patience lasts, and returns the document of the answer. */
  send(method, path, body, { repeatable = method === 'GET', waitMs = 0, contentType } = {}) {
    return this.patiently(async () => {
      const signal = AbortSignal.timeout(Math.ceil(ANSWER_MS + waitMs));
      const answer = await this.open(method, path, body, signal, contentType && { 'content-type': contentType });
      const text = await answer.text().catch((error) => this.#fail(error));
      try {
        return JSON.parse(text);
      } catch {
        throw new HostError(`${this.server} did not answer with JSON: perhaps it is no host`);
      }
    }, repeatable);
  }

  async patiently(once, repeatable) {
    const pauses = new Pauses(this.patienceMs);
    for (;;) {
      try {
        return await once();
      } catch (error) {
        const isAway = error instanceof Unreachable && (repeatable || !error.mayHaveHappened);
        const isPassing = error instanceof Refused && PASSING.includes(error.status);
        const again = isAway || (isPassing && (repeatable || WITHOUT_EFFECT.includes(error.code)));
        if (!again || !(await pauses.pause((error.retryAfter ?? 0) * 1_000))) throw error;
      }
    }
  }

  /** Sends a request once, and returns the answer, of which only the head has been read. */
  async open(method, path, body, signal, more = {}) {
    const headers = { ...this.#headers, ...more };
    // Browsers refuse a call of `fetch` as a method of something else.
    const fetch = this.#fetch;
    if (method !== 'GET' && !(body instanceof FormData)) headers['content-type'] ??= 'application/json';
    const request = { method, headers, body, signal, redirect: 'error' };
    const answer = await fetch(this.server + path, request).catch((error) => this.#fail(error));
    if (answer.ok) return answer;
    const problem = await answer.json().catch(() => ({}));
    const after = answer.headers.get('retry-after');
    throw new Refused(answer.status, problem ?? {}, /^\d+$/.test(after ?? '') ? Number(after) : undefined);
  }

  #fail(error) {
    throw this.noAnswer(error);
  }

  noAnswer(error) {
    const cause = error.cause ?? error;
    const code = cause.code ?? '';
    if (/CERT|TLS|SSL|ISSUER/.test(code)) {
      return new SettingsError(`cannot use TLS with ${this.server}: ${cause.message} (${code}); NODE_EXTRA_CA_CERTS may name its authority`);
    }
    const why = cause.message || code || cause.name;
    return new Unreachable(`no answer from ${this.server}: ${why}`, !NOT_SENT.includes(code));
  }
}

/** Puts names and ids into the places of a path, and adds a query. */
export function filled(path, places = [], query = {}) {
  const left = [...places];
  const full = path.replace(/\{[^}]*\}/g, () => {
    const name = left.shift();
    if (typeof name !== 'string' || !name) throw new TypeError('a name or an id is empty');
    return encodeURIComponent(name);
  });
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null);
  const text = given.map(([key, value]) => `${key}=${encodeURIComponent(value)}`).join('&');
  return text ? `${full}?${text}` : full;
}
