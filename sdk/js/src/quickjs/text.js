// Text as bytes and back. The work is done by native functions of the engine: those for base64, and those that write text as
// UTF-8 behind percent signs.

/** How much text or how many bytes are converted with one call; a multiple of three, so that base64 needs no padding. */
const PIECE = 98_304;

const isAscii = (text) => !/[^\0-\x7f]/.test(text);

/** Returns a text whose characters are bytes. */
const binary = (bytes) => atob(bytes.toBase64());

const bytesOf = (text) => Uint8Array.fromBase64(btoa(isAscii(text) ? text : unescape(encodeURIComponent(text))));

/** Returns where a piece that begins at `from` ends: not within what `isWithin` says belongs to what is before it. */
function pieceEnd(from, length, isWithin) {
  let end = Math.min(from + PIECE, length);
  for (let left = 3; left > 0 && end < length && isWithin(end); left -= 1) end -= 1;
  return end;
}

function encoded(given) {
  const text = given.toWellFormed();
  if (text.length <= PIECE) return bytesOf(text);
  const pieces = [];
  let size = 0;
  for (let from = 0; from < text.length; ) {
    const end = pieceEnd(from, text.length, (at) => (text.charCodeAt(at) & 0xfc00) === 0xdc00);
    const piece = bytesOf(text.slice(from, end));
    pieces.push(piece);
    size += piece.length;
    from = end;
  }
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const piece of pieces) {
    bytes.set(piece, at);
    at += piece.length;
  }
  return bytes;
}

export class TextEncoder {
  get encoding() {
    return 'utf-8';
  }

  encode(text = '') {
    return encoded(String(text));
  }

  encodeInto(text, into) {
    const source = String(text);
    let bytes = encoded(source);
    if (bytes.length > into.length) {
      let end = into.length;
      while (end > 0 && (bytes[end] & 0xc0) === 0x80) end -= 1;
      bytes = bytes.subarray(0, end);
    }
    into.set(bytes);
    const read = bytes.length < encoded(source).length ? new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes).length : source.length;
    return { read, written: bytes.length };
  }
}

/** The labels of encodings, by their names. */
const LABELS = {
  'utf-8': ['utf-8', 'utf8', 'unicode-1-1-utf-8', 'unicode11utf8', 'unicode20utf8', 'x-unicode20utf8'],
  'utf-16le': ['utf-16le', 'utf-16', 'ucs-2', 'iso-10646-ucs-2', 'csunicode', 'unicode', 'unicodefeff'],
  'utf-16be': ['utf-16be', 'unicodefffe'],
  'windows-1252': [
    ...['windows-1252', 'ascii', 'us-ascii', 'latin1', 'l1', 'iso-8859-1', 'iso8859-1', 'iso88591', 'iso_8859-1'],
    ...['iso_8859-1:1987', 'iso-ir-100', 'cp1252', 'x-cp1252', 'cp819', 'ibm819', 'csisolatin1', 'ansi_x3.4-1968'],
  ],
};

/** The characters of windows-1252 from 0x80 to 0x9f. */
const WINDOWS = '€\x81‚ƒ„…†‡ˆ‰Š‹Œ\x8dŽ\x8f\x90‘’“”•–—˜™š›œ\x9džŸ';

const DECODERS = {
  'utf-8': (bytes, fatal) => {
    const pieces = [];
    for (let from = 0; from < bytes.length; ) {
      const end = pieceEnd(from, bytes.length, (at) => (bytes[at] & 0xc0) === 0x80);
      const piece = from === 0 && end === bytes.length ? bytes : bytes.subarray(from, end);
      pieces.push(decodedPiece(piece, fatal));
      from = end;
    }
    return pieces.length === 1 ? pieces[0] : pieces.join('');
  },
  'utf-16le': (bytes, fatal) => units(bytes, 1, fatal),
  'utf-16be': (bytes, fatal) => units(bytes, 0, fatal),
  'windows-1252': (bytes) => binary(bytes).replace(/[\x80-\x9f]/g, (one) => WINDOWS[one.charCodeAt(0) - 0x80]),
};

function decodedPiece(bytes, fatal) {
  const text = binary(bytes);
  if (isAscii(text)) return text;
  try {
    return decodeURIComponent(escape(text));
  } catch {
    if (fatal) throw new TypeError('the bytes are not valid UTF-8');
    return repaired(bytes);
  }
}

/** How many bytes follow the first one of a character, and the bounds of the second one. */
function lead(byte) {
  if (byte < 0xc2 || byte > 0xf4) return undefined;
  if (byte < 0xe0) return [1, 0x80, 0xbf];
  if (byte < 0xf0) return [2, byte === 0xe0 ? 0xa0 : 0x80, byte === 0xed ? 0x9f : 0xbf];
  return [3, byte === 0xf0 ? 0x90 : 0x80, byte === 0xf4 ? 0x8f : 0xbf];
}

/** Returns how many of the bytes at `at` are one character, or the beginning of one, and whether it is whole. */
function character(bytes, at) {
  if (bytes[at] < 0x80) return { size: 1, isWhole: true };
  const found = lead(bytes[at]);
  if (!found) return { size: 1, isWhole: false };
  let [follow, low, high] = found;
  let size = 1;
  while (size <= follow && bytes[at + size] >= low && bytes[at + size] <= high) {
    size += 1;
    [low, high] = [0x80, 0xbf];
  }
  return { size, isWhole: size > follow };
}

/** Decodes bytes of which some are no UTF-8. */
function repaired(bytes) {
  let text = '';
  let from = 0;
  const flush = (end) => {
    if (end > from) text += decodeURIComponent(escape(binary(bytes.slice(from, end))));
  };
  for (let at = 0; at < bytes.length; ) {
    const { size, isWhole } = character(bytes, at);
    if (!isWhole) {
      flush(at);
      text += '\ufffd';
      from = at + size;
    }
    at += size;
  }
  flush(bytes.length);
  return text;
}

/** Returns how many bytes at the end are the beginning of a character that is not whole. */
function unfinished(bytes, encoding) {
  if (encoding === 'windows-1252') return 0;
  if (encoding !== 'utf-8') {
    const odd = bytes.length % 2;
    const unit = bytes[bytes.length - odd - (encoding === 'utf-16le' ? 1 : 2)];
    return odd + ((unit & 0xfc) === 0xd8 ? 2 : 0);
  }
  for (let back = 1; back <= 3 && back <= bytes.length; back += 1) {
    const at = bytes.length - back;
    if ((bytes[at] & 0xc0) === 0x80) continue;
    const { size, isWhole } = character(bytes, at);
    return !isWhole && size === back && lead(bytes[at]) ? back : 0;
  }
  return 0;
}

function units(bytes, high, fatal) {
  const codes = [];
  for (let at = 0; at + 1 < bytes.length; at += 2) codes.push(bytes[at + 1 - high] | (bytes[at + high] << 8));
  let text = '';
  for (let at = 0; at < codes.length; at += 8192) text += String.fromCharCode(...codes.slice(at, at + 8192));
  if (bytes.length % 2) text += '\ufffd';
  if (fatal && (bytes.length % 2 || !text.isWellFormed())) throw new TypeError('the bytes are not valid UTF-16');
  return text.toWellFormed();
}

export class TextDecoder {
  #encoding;
  #fatal;
  #ignoreBom;
  #kept = new Uint8Array();
  #isBegun = false;

  constructor(label = 'utf-8', { fatal = false, ignoreBOM = false } = {}) {
    const wanted = String(label).trim().toLowerCase();
    this.#encoding = Object.keys(LABELS).find((name) => LABELS[name].includes(wanted));
    if (!this.#encoding) {
      throw new RangeError(`no decoder for ${label}; there are those for ${Object.keys(LABELS).join(', ')}`);
    }
    this.#fatal = Boolean(fatal);
    this.#ignoreBom = Boolean(ignoreBOM);
  }

  get encoding() {
    return this.#encoding;
  }

  get fatal() {
    return this.#fatal;
  }

  get ignoreBOM() {
    return this.#ignoreBom;
  }

  decode(given = new Uint8Array(), { stream = false } = {}) {
    let bytes = new Uint8Array(given.buffer ?? given, given.byteOffset ?? 0, given.byteLength);
    if (this.#kept.length > 0) {
      const joined = new Uint8Array(this.#kept.length + bytes.length);
      joined.set(this.#kept);
      joined.set(bytes, this.#kept.length);
      bytes = joined;
    }
    const left = stream ? unfinished(bytes, this.#encoding) : 0;
    this.#kept = bytes.slice(bytes.length - left);
    const text = DECODERS[this.#encoding](left ? bytes.subarray(0, bytes.length - left) : bytes, this.#fatal);
    const hasMark = !this.#isBegun && !this.#ignoreBom && text.startsWith('\ufeff');
    this.#isBegun = stream && (this.#isBegun || text.length > 0);
    return hasMark && this.#encoding !== 'windows-1252' ? text.slice(1) : text;
  }
}
