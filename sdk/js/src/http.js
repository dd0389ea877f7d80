// Requests to HTTP servers, as with `fetch`. Each has its whole body, and so has each response.

import { JobError } from './errors.js';
import { checkedRequest } from './limits.js';
import { redirectOf, sendAll } from './redirects.js';
import { asJson, bytesOf, millis, shown } from './values.js';

const RETRYABLE = [408, 425, 429];

/** A response. Any status is a response; see `throwForStatus`. */
export class Response {
  /** The body as the server sent it. */
  content;

  /** Makes a response, for tests: `body` is a text, bytes, or a value that becomes JSON. */
  constructor(body = '', { status = 200, headers = {} } = {}) {
    const bytes = bytesOf(body);
    const isJson = typeof body !== 'string' && !bytes;
    this.status = status;
    this.headers = new Headers(isJson ? { 'content-type': 'application/json', ...headers } : headers);
    this.content = bytes ?? new TextEncoder().encode(isJson ? (asJson(body) ?? '') : body);
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

const pairs = (headers) =>
  typeof headers?.[Symbol.iterator] === 'function' ? [...headers] : Object.entries(headers ?? {});

/** Returns the fields of a request. A content type that the author gives is the only one. */
function fieldsOf(headers, type) {
  const fields = pairs(headers).map(([name, value]) => [shown(name), shown(value)]);
  const isTyped = fields.some(([name]) => name.toLowerCase() === 'content-type');
  return type && !isTyped ? [['content-type', type], ...fields] : fields;
}

/** Returns a body as bytes, and its type. */
function bodyOf(body, json) {
  if (json !== undefined) {
    const text = asJson(json);
    if (text === undefined) throw new TypeError(`fetch: ${shown(json)} has no JSON`);
    return [new TextEncoder().encode(text), 'application/json'];
  }
  if (body === undefined || body === null) return [new Uint8Array()];
  const bytes = bytesOf(body);
  if (bytes) return [bytes];
  if (typeof body === 'string') return [new TextEncoder().encode(body)];
  if (Object.prototype.toString.call(body) === '[object URLSearchParams]') {
    return [new TextEncoder().encode(String(body)), 'application/x-www-form-urlencoded;charset=UTF-8'];
  }
  throw new TypeError(`fetch: a body is a text, bytes or URLSearchParams, got ${shown(body)}; give values as \`json\``);
}

/** Makes the function that sends the requests of a handler. */
export const fetchWith = (host) =>
  async function fetch(url, options) {
    const { method, headers, body, json, redirect, timeoutMs } = options ?? {};
    const [content, type] = bodyOf(body, json);
    const request = {
      method: shown(method ?? 'GET'),
      url: shown(typeof url?.href === 'string' ? url.href : url),
      headers: fieldsOf(headers, type),
      body: content,
      timeoutMs: timeoutMs === undefined || timeoutMs === null ? undefined : millis(timeoutMs, 'timeoutMs'),
    };
    const send = (hop) => host.http.send(checkedRequest(hop));
    const { answer } = sendAll(send, request, redirectOf(redirect));
    return new Response(answer.body, { status: answer.status, headers: answer.headers });
  };
