// What authors hand over, as the host takes it. What cannot be converted is an error at the author's line; what describes a
// failure is always converted.

/** The longest text of a failure, and the most levels of its details. */
const TEXT_MAX = 8192;
const LEVELS_MAX = 32;

/** The longest time in milliseconds: what fits 32 bits, 49 days. */
const MS_MAX = 2 ** 32 - 1;

/** Returns the type of a value for a message. */
function typeName(value) {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'an array';
  return typeof value === 'object' ? 'an object' : typeof value;
}

/** Returns any value as text. It never throws. */
export function shown(value) {
  try {
    if (typeof value === 'string') return value.toWellFormed();
    if (value instanceof Error) return `${value.name}: ${value.message}`.toWellFormed();
    const json = typeof value === 'object' && value !== null ? asJson(value) : undefined;
    return (json ?? String(value)).toWellFormed();
  } catch {
    return typeof value === 'function' ? 'a function' : `${typeName(value)} that has no text`;
  }
}

/** Returns a text with its end cut off if it is too long for a failure. */
export function cut(text, max = TEXT_MAX) {
  return text.length <= max ? text : `${text.slice(0, max).toWellFormed()}… (${text.length - max} more characters)`;
}

/** Returns JSON for what a failure has as details, whatever it is. */
export function detailsOf(value) {
  if (value === undefined || value === null) return undefined;
  try {
    const json = asJson(plain(value, []));
    return json === undefined || json.length <= 8 * TEXT_MAX ? json : asJson(cut(json));
  } catch {
    return asJson(cut(shown(value)));
  }
}

/** Returns a value without what JSON lacks. */
function plain(value, above) {
  if (typeof value === 'bigint' || typeof value === 'symbol' || typeof value === 'function') return shown(value);
  if (typeof value === 'number' && !Number.isFinite(value)) return String(value);
  if (typeof value !== 'object' || value === null) return value;
  if (above.includes(value)) return '(a cycle)';
  if (above.length >= LEVELS_MAX) return '(deeper)';
  const within = [...above, value];
  try {
    if (value instanceof Error) return shown(value);
    if (typeof value.toJSON === 'function') return plain(value.toJSON(), within);
    if (value instanceof Map || value instanceof Set) return plain([...value], within);
    if (Array.isArray(value)) return value.map((one) => plain(one, within));
    return Object.fromEntries(Object.keys(value).map((key) => [key, plain(value[key], within)]));
  } catch (thrown) {
    return `(${shown(thrown)})`;
  }
}

/** Returns a value as JSON, or `undefined` if there is none. Halves of pairs are replaced: they are no text. */
export function asJson(value) {
  const json = JSON.stringify(value);
  if (!json?.includes('\\ud')) return json?.toWellFormed();
  return json.replace(/\\(?:ud[89a-f][0-9a-f]{2}|.)/g, (escape) => (escape.startsWith('\\ud') ? '\\ufffd' : escape));
}

/** Returns a time in milliseconds. */
export function millis(value, name) {
  const ms = typeof value === 'bigint' ? Number(value) : value;
  if (typeof ms !== 'number' || Number.isNaN(ms)) throw new TypeError(`${name}: expected milliseconds, got ${shown(value)}`);
  if (ms > MS_MAX) throw new RangeError(`${name}: at most ${MS_MAX} milliseconds (49 days), got ${shown(value)}`);
  return Math.max(0, Math.ceil(ms));
}

/** Returns a name. */
export function textOf(value, name) {
  if (typeof value !== 'string') throw new TypeError(`${name}: expected a text, got ${shown(value)} (${typeName(value)})`);
  if (!value.isWellFormed()) throw new TypeError(`${name}: the text has half of a pair of UTF-16`);
  return value;
}

/** Returns bytes of a buffer or of a view of one, and `undefined` for anything else. */
export function bytesOf(value) {
  // They may be of another realm, so that they are no instances of our classes.
  if (ArrayBuffer.isView(value)) {
    const isPlain = value instanceof Uint8Array && value.constructor === Uint8Array;
    return isPlain ? value : new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  }
  const tag = Object.prototype.toString.call(value);
  return tag === '[object ArrayBuffer]' || tag === '[object SharedArrayBuffer]' ? new Uint8Array(value) : undefined;
}
