// `fetch` with its classes, over the requests that the host sends. Each body is whole before it is sent or read.

import { redirectOf, sendAll } from '../redirects.js';
import { AbortController, timeLeft } from './events.js';

const CRLF = '\r\n';

/** Returns bytes of their own for what is bytes, and `undefined` for anything else. */
function bytesOf(value) {
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength).slice();
  return value instanceof ArrayBuffer ? new Uint8Array(value.slice(0)) : undefined;
}

function joined(pieces) {
  const bytes = new Uint8Array(pieces.reduce((size, piece) => size + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    bytes.set(piece, at);
    at += piece.length;
  }
  return bytes;
}

const encode = (text) => new TextEncoder().encode(text);

export class Blob {
  #bytes;
  #type;

  constructor(parts = [], { type = '' } = {}) {
    this.#bytes = joined([...parts].map((part) => (part instanceof Blob ? part.#bytes : (bytesOf(part) ?? encode(String(part))))));
    this.#type = String(type).toLowerCase();
  }

  get size() {
    return this.#bytes.length;
  }

  get type() {
    return this.#type;
  }

  slice(from, to, type) {
    return new Blob([this.#bytes.slice(from, to)], { type });
  }

  async bytes() {
    return this.#bytes.slice();
  }

  async arrayBuffer() {
    return this.#bytes.slice().buffer;
  }

  async text() {
    return new TextDecoder().decode(this.#bytes);
  }

  stream() {
    return streamOf(this.#bytes);
  }

  get [Symbol.toStringTag]() {
    return 'Blob';
  }

  /** Returns the bytes of a blob, for what is in this module. */
  static content(blob) {
    return blob.#bytes;
  }
}

const { content } = Blob;
delete Blob.content;

export class File extends Blob {
  constructor(parts, name, options = {}) {
    super(parts, options);
    this.name = String(name);
    this.lastModified = options.lastModified ?? Date.now();
  }

  get [Symbol.toStringTag]() {
    return 'File';
  }
}

export class FormData {
  #entries = [];

  append(name, value, filename) {
    this.#entries.push([String(name), entry(value, filename)]);
  }

  set(name, value, filename) {
    const at = this.#entries.findIndex(([key]) => key === String(name));
    this.delete(name);
    this.#entries.splice(at < 0 ? this.#entries.length : at, 0, [String(name), entry(value, filename)]);
  }

  delete(name) {
    this.#entries = this.#entries.filter(([key]) => key !== String(name));
  }

  get(name) {
    return this.getAll(name)[0] ?? null;
  }

  getAll(name) {
    return this.#entries.filter(([key]) => key === String(name)).map(([, value]) => value);
  }

  has(name) {
    return this.getAll(name).length > 0;
  }

  forEach(callback, self) {
    for (const [name, value] of this) callback.call(self, value, name, this);
  }

  entries() {
    return this.#entries.values();
  }

  *keys() {
    for (const [name] of this.#entries) yield name;
  }

  *values() {
    for (const [, value] of this.#entries) yield value;
  }

  [Symbol.iterator]() {
    return this.entries();
  }

  get [Symbol.toStringTag]() {
    return 'FormData';
  }
}

function entry(value, filename) {
  if (!(value instanceof Blob)) return String(value);
  if (value instanceof File && filename === undefined) return value;
  return new File([value], filename ?? value.name ?? 'blob', { type: value.type });
}

/** Returns a form as bytes, and their type. */
function multipart(form) {
  const boundary = `form-${Math.random()}${Math.random()}`;
  const quoted = (text) => text.replace(/[\r\n"]/g, (one) => encodeURIComponent(one));
  const pieces = [];
  for (const [name, value] of form) {
    const isFile = value instanceof Blob;
    const file = isFile ? `; filename="${quoted(value.name)}"${CRLF}content-type: ${value.type || 'application/octet-stream'}` : '';
    pieces.push(encode(`--${boundary}${CRLF}content-disposition: form-data; name="${quoted(name)}"${file}${CRLF}${CRLF}`));
    pieces.push(isFile ? content(value) : encode(value), encode(CRLF));
  }
  pieces.push(encode(`--${boundary}--${CRLF}`));
  return { bytes: joined(pieces), type: `multipart/form-data; boundary=${boundary}` };
}

export class Headers {
  #values = new Map();

  constructor(init) {
    if (init === undefined || init === null) return;
    for (const [name, value] of typeof init[Symbol.iterator] === 'function' ? init : Object.entries(init)) this.append(name, value);
  }

  append(name, value) {
    const key = fieldName(name);
    const values = this.#values.get(key) ?? [];
    this.#values.set(key, [...values, fieldValue(value)]);
  }

  set(name, value) {
    this.#values.set(fieldName(name), [fieldValue(value)]);
  }

  delete(name) {
    this.#values.delete(fieldName(name));
  }

  get(name) {
    return this.#values.get(fieldName(name))?.join(', ') ?? null;
  }

  getSetCookie() {
    return this.#values.get('set-cookie') ?? [];
  }

  has(name) {
    return this.#values.has(fieldName(name));
  }

  forEach(callback, self) {
    for (const [name, value] of this) callback.call(self, value, name, this);
  }

  *entries() {
    const sorted = [...this.#values].sort(([one], [other]) => (one < other ? -1 : 1));
    for (const [name, values] of sorted) {
      if (name === 'set-cookie') for (const value of values) yield [name, value];
      else yield [name, values.join(', ')];
    }
  }

  *keys() {
    for (const [name] of this.entries()) yield name;
  }

  *values() {
    for (const [, value] of this.entries()) yield value;
  }

  [Symbol.iterator]() {
    return this.entries();
  }

  get [Symbol.toStringTag]() {
    return 'Headers';
  }
}

function fieldName(name) {
  const text = String(name);
  if (!/^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/.test(text)) throw new TypeError(`${JSON.stringify(text)} is no name of a header`);
  return text.toLowerCase();
}

function fieldValue(value) {
  const text = String(value).replace(/^[\t\n\r ]+|[\t\n\r ]+$/g, '');
  if (/[\0\r\n]/.test(text)) throw new TypeError('the value of a header has a line break or a zero byte');
  return text;
}

/** Returns a body as bytes or a promise of them, and its type. */
function read(body) {
  if (body === undefined || body === null) return { bytes: undefined };
  const bytes = bytesOf(body);
  if (bytes) return { bytes };
  if (body instanceof Blob) return { bytes: content(body), type: body.type };
  if (body instanceof FormData) return multipart(body);
  if (typeof URLSearchParams === 'function' && body instanceof URLSearchParams) {
    return { bytes: encode(String(body)), type: 'application/x-www-form-urlencoded;charset=UTF-8' };
  }
  if (typeof body?.[Symbol.asyncIterator] === 'function' || typeof body?.getReader === 'function') {
    return { stream: body };
  }
  return { bytes: encode(String(body)), type: 'text/plain;charset=UTF-8' };
}

async function collected(stream) {
  const pieces = [];
  if (typeof stream[Symbol.asyncIterator] === 'function') {
    for await (const piece of stream) pieces.push(bytesOf(piece) ?? encode(String(piece)));
    return joined(pieces);
  }
  const reader = stream.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return joined(pieces);
    pieces.push(value);
  }
}

function streamOf(bytes) {
  if (typeof ReadableStream !== 'function') return null;
  return new ReadableStream({
    type: 'bytes',
    start(controller) {
      if (bytes.length > 0) controller.enqueue(bytes.slice());
      controller.close();
    },
  });
}

/** What a request and a response have of a body. */
class Body {
  #bytes;
  #stream;
  #isUsed = false;

  constructor(body, headers) {
    const { bytes, stream, type } = read(body);
    this.#bytes = bytes;
    this.#stream = stream;
    this.headers = headers;
    if (type && !headers.has('content-type')) headers.set('content-type', type);
  }

  get bodyUsed() {
    return this.#isUsed;
  }

  get body() {
    if (!this.#stream && this.#bytes) this.#stream = streamOf(this.#bytes);
    return this.#stream ?? null;
  }

  async bytes() {
    if (this.#isUsed) throw new TypeError('the body has been read already');
    this.#isUsed = true;
    return this.#bytes ?? (this.#stream ? collected(this.#stream) : new Uint8Array());
  }

  async arrayBuffer() {
    const bytes = await this.bytes();
    return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
  }

  async text() {
    return new TextDecoder().decode(await this.bytes());
  }

  async json() {
    return JSON.parse(await this.text());
  }

  async blob() {
    return new Blob([await this.bytes()], { type: this.headers.get('content-type') ?? '' });
  }

  async formData() {
    const type = this.headers.get('content-type') ?? '';
    if (!type.startsWith('application/x-www-form-urlencoded')) throw new TypeError(`no form can be read from ${type || 'this body'}`);
    const form = new FormData();
    for (const [name, value] of new URLSearchParams(await this.text())) form.append(name, value);
    return form;
  }

  /** Returns the bytes or the stream of a body, which stays unread. */
  static peek(body) {
    if (body.#isUsed) throw new TypeError('the body has been read already');
    return body.#bytes ?? body.#stream;
  }
}

const { peek } = Body;
delete Body.peek;

export class Request extends Body {
  constructor(input, init = {}) {
    const from = input instanceof Request ? input : undefined;
    const method = String(init.method ?? from?.method ?? 'GET');
    const own = init.body ?? (from ? peek(from) : undefined);
    if (/^(get|head)$/i.test(method) && own !== undefined && own !== null) throw new TypeError(`a ${method} request has no body`);
    super(own, new Headers(init.headers ?? from?.headers));
    this.url = from ? from.url : String(input instanceof Object && 'href' in input ? input.href : input);
    this.method = /^(get|head|post|put|delete|options|patch)$/i.test(method) ? method.toUpperCase() : method;
    this.signal = init.signal ?? from?.signal ?? new AbortController().signal;
    for (const [name, otherwise] of Object.entries(OPTIONS)) this[name] = init[name] ?? from?.[name] ?? otherwise;
  }

  clone() {
    return new Request(this);
  }

  get [Symbol.toStringTag]() {
    return 'Request';
  }
}

const OPTIONS = {
  cache: 'default',
  credentials: 'same-origin',
  duplex: 'half',
  integrity: '',
  keepalive: false,
  mode: 'cors',
  redirect: 'manual',
  referrer: 'about:client',
};

export class Response extends Body {
  constructor(body, { status = 200, statusText = '', headers } = {}) {
    if (!(status >= 200 && status <= 599)) throw new RangeError(`${status} is no status of a response`);
    super(body, new Headers(headers));
    Object.assign(this, { status, statusText, type: 'default', url: '', redirected: false });
  }

  get ok() {
    return this.status >= 200 && this.status < 300;
  }

  clone() {
    const { status, statusText, headers, url } = this;
    return Object.assign(new Response(peek(this), { status, statusText, headers }), { url });
  }

  static json(value, init = {}) {
    const response = new Response(JSON.stringify(value), init);
    if (!new Headers(init.headers).has('content-type')) response.headers.set('content-type', 'application/json');
    return response;
  }

  static error() {
    return Object.assign(new Response(null), { status: 0, type: 'error' });
  }

  static redirect(url, status = 302) {
    return new Response(null, { status, headers: { location: String(url) } });
  }

  get [Symbol.toStringTag]() {
    return 'Response';
  }
}

/** Headers that `fetch` leaves out, as in browsers: they are of the connection, which the host makes. */
const OF_CONNECTION = [
  ...['accept-encoding', 'connection', 'content-length', 'expect', 'host', 'keep-alive', 'proxy-connection', 'te', 'trailer'],
  ...['transfer-encoding', 'upgrade'],
];

/** Makes `fetch` of a function that sends a request with its whole body. It takes a value as `json` and `timeoutMs` too. */
export const fetchBy = (send) =>
  async function fetch(input, init = {}) {
    const { json, ...options } = init ?? {};
    if (json !== undefined) Object.assign(options, { body: JSON.stringify(json) });
    const request = new Request(input, options);
    if (json !== undefined) setDefault(request.headers, 'content-type', 'application/json', init.headers);
    request.signal.throwIfAborted();
    const body = await request.bytes();
    const timeoutMs = options.timeoutMs ?? timeLeft(request.signal);
    const fields = [...request.headers].filter(([name]) => !OF_CONNECTION.includes(name));
    const first = { method: request.method, url: request.url, headers: fields, body, timeoutMs };
    const { answer, url, redirected } = sendAll(send, first, redirectOf(request.redirect));
    const isEmpty = [204, 205, 304].includes(answer.status);
    const { status, headers } = answer;
    return Object.assign(new Response(isEmpty ? null : answer.body, { status, headers }), { url, redirected });
  };

function setDefault(headers, name, value, given) {
  if (!new Headers(given).has(name)) headers.set(name, value);
}
