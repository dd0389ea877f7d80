// What a host call takes at most. What is larger is refused here, because the host would end the attempt for it; lines of the log
// are cut, as the host does.

import { HttpError, SqlError, StoreError } from './errors.js';
import { detailsOf, shown, textOf } from './values.js';

const BODY_BYTES_MAX = 4 << 20;
const URL_BYTES_MAX = 8 << 10;

/** The most headers of a request, and their bytes together. */
const HEADERS_MAX = 1_000;
const HEADERS_BYTES_MAX = 64 << 10;

/** The most bytes of all jobs of one call, as JSON. */
const JOBS_BYTES_MAX = 8 << 20;

/** The most bytes of a value of state. */
const VALUE_BYTES_MAX = 1 << 20;

/** The most bytes of a statement with its parameters. */
const STATEMENT_BYTES_MAX = 4 << 20;

/** The most bytes of a key of state, and of the name of a space, a limit, a secret or a database. */
const NAME_BYTES_MAX = 512;

/** The most bytes of a line of the log, and of each of its values; the most fields, and the most bytes of their names. */
const LINE_BYTES_MAX = 16 << 10;
const FIELDS_MAX = 64;
const FIELD_NAME_BYTES_MAX = LINE_BYTES_MAX / FIELDS_MAX;

/** Returns how many bytes a text has. */
const size = (text) => new TextEncoder().encode(text).length;

/** Returns a request that is not too large. */
export function checkedRequest(request) {
  const { method, url, headers, body } = request;
  const refuse = (message) => {
    throw new HttpError({ kind: 'invalid-request', message });
  };
  if (size(url) > URL_BYTES_MAX) refuse(`the URL has ${size(url)} bytes, more than ${URL_BYTES_MAX}`);
  if (size(method) > NAME_BYTES_MAX) refuse('invalid name of a method');
  const inHeaders = headers.reduce((sum, [name, value]) => sum + size(name) + size(value), 0);
  if (headers.length > HEADERS_MAX || inHeaders > HEADERS_BYTES_MAX) {
    refuse(`too many headers: at most ${HEADERS_MAX} with ${HEADERS_BYTES_MAX} bytes`);
  }
  if (body.length > BODY_BYTES_MAX) refuse(`the request's body has ${body.length} bytes, more than ${BODY_BYTES_MAX}`);
  return request;
}

function checked(value, bytes, most, what) {
  if (bytes <= most) return value;
  throw new StoreError({ kind: 'invalid-request', message: `${what} may have at most ${most} bytes, got ${bytes}` });
}

/** Returns jobs that are not too large. */
export const checkedJobs = (jobs) => checked(jobs, size(jobs), JOBS_BYTES_MAX, 'the jobs of one call');

/** Returns a value of state that is not too large. */
export const checkedValue = (value) => checked(value, value?.length ?? 0, VALUE_BYTES_MAX, 'a value of state');

/** Returns a name that is a text and not too long. */
export const nameOf = (value, what) => checked(textOf(value, what), size(value), NAME_BYTES_MAX, what);

/** Returns a key of state that is neither empty nor too long. */
export function keyOf(value) {
  const bytes = size(textOf(value, 'a key of state'));
  if (bytes > 0 && bytes <= NAME_BYTES_MAX) return value;
  const message = `a key of state must have 1–${NAME_BYTES_MAX} bytes, got ${bytes}`;
  throw new StoreError({ kind: 'invalid-request', message });
}

/** Returns a statement and its parameters, which are not too large. */
export function checkedStatement(statement, params) {
  const bytes = size(statement) + size(params);
  if (bytes <= STATEMENT_BYTES_MAX) return [statement, params];
  const message = `the statement and its parameters have ${bytes} bytes, more than ${STATEMENT_BYTES_MAX}`;
  throw new SqlError({ kind: 'too-large', message });
}

/** Returns a line of the log without its end if it is too long. */
export function lineOf(text, max = LINE_BYTES_MAX) {
  if (text.length * 3 <= max) return text;
  const bytes = new TextEncoder().encode(text);
  if (bytes.length <= max) return text;
  let end = max;
  while ((bytes[end] & 0xc0) === 0x80) end -= 1;
  return `${new TextDecoder().decode(bytes.slice(0, end))} … (${bytes.length - end} more bytes)`;
}

/** Returns the fields of a line of the log, with values as JSON. A value that is too long becomes a text without its end. */
export function fieldsOf(fields) {
  const first = Object.entries(fields ?? {}).slice(0, FIELDS_MAX);
  return first.map(([name, value]) => [lineOf(shown(name), FIELD_NAME_BYTES_MAX), fieldOf(value)]);
}

function fieldOf(value) {
  const json = detailsOf(value) ?? 'null';
  if (json.length * 3 <= LINE_BYTES_MAX) return json;
  const text = typeof value === 'string' ? shown(value) : json;
  return lineOf(text) === text ? json : JSON.stringify(lineOf(text));
}
