// Requests to HTTP servers, as with `fetch`. Each has its whole body, and so has each response.

import { JobError } from './errors.js';

const RETRYABLE = [408, 425, 429];

/** A response. Any status is a response; see `throwForStatus`. */
export class Response {
  /** The body as the server sent it. */
  content;

  /** Makes a response, for tests: `body` is a text, bytes, or a value that becomes JSON. */
  constructor(body = '', { status = 200, headers = {} } = {}) {
    // Bytes from the host may be of another realm, so that they are no instances of our class.
    const isBytes = ArrayBuffer.isView(body);
    const isJson = typeof body !== 'string' && !isBytes;
    this.status = status;
    this.headers = new Headers(isJson ? { 'content-type': 'application/json', ...headers } : headers);
    this.content = isBytes ? body : new TextEncoder().encode(isJson ? JSON.stringify(body) : body);
  }

  /** Whether the status is 2xx. */
  get ok() {
    return this.status >= 200 && this.status < 300;
  }

  async bytes() {
    return this.content;
  }

  async arrayBuffer() {
    return this.content.buffer.slice(this.content.byteOffset, this.content.byteOffset + this.content.byteLength);
  }

  async text() {
    return new TextDecoder().decode(this.content);
  }

  async json() {
    const text = await this.text();
    try {
      return JSON.parse(text);
    } catch (cause) {
      const message = `the response is not JSON: ${cause.message}`;
      throw new JobError(message, { kind: 'http_invalid_json', category: 'INFRASTRUCTURE', cause });
    }
  }

  /** Returns the response if its status is 2xx. Of other statuses, 408, 425, 429 and 5xx are retried. */
  throwForStatus() {
    if (this.ok) return this;
    throw new JobError(`the server answered ${this.status}`, {
      kind: 'http_status',
      category: 'INFRASTRUCTURE',
      code: String(this.status),
      retryable: RETRYABLE.includes(this.status) || this.status >= 500,
    });
  }
}

/** Headers by name. Those that are there several times are joined. */
class Headers {
  #values = new Map();

  constructor(init) {
    for (const [name, value] of pairs(init)) {
      const key = name.toLowerCase();
      this.#values.set(key, this.#values.has(key) ? `${this.#values.get(key)}, ${value}` : String(value));
    }
  }

  get(name) {
    return this.#values.get(name.toLowerCase()) ?? null;
  }

  has(name) {
    return this.#values.has(name.toLowerCase());
  }

  [Symbol.iterator]() {
    return this.#values.entries();
  }
}

const pairs = (headers = {}) => (typeof headers[Symbol.iterator] === 'function' ? [...headers] : Object.entries(headers));

/** Makes the function that sends the requests of a handler. */
export const fetchWith = (host) =>
  async function fetch(url, { method = 'GET', headers, body, json, timeoutMs } = {}) {
    const fields = pairs(headers).map(([name, value]) => [name, String(value)]);
    if (json !== undefined) fields.unshift(['content-type', 'application/json']);
    const content = json === undefined ? (body ?? '') : JSON.stringify(json);
    const answer = host.http.send({
      method,
      url: String(url),
      headers: fields,
      body: typeof content === 'string' ? new TextEncoder().encode(content) : content,
      timeoutMs,
    });
    return new Response(answer.body, { status: answer.status, headers: answer.headers });
  };
