// Text as UTF-8 and back.

export class TextEncoder {
  encoding = 'utf-8';

  encode(text = '') {
    // Each escape is one byte, and so is each other character. Halves of pairs are replaced, as the standard says.
    const escaped = encodeURIComponent(String(text).toWellFormed());
    const bytes = escaped.replace(/%(..)/g, (_, byte) => String.fromCharCode(Number.parseInt(byte, 16)));
    return Uint8Array.from(bytes, (one) => one.charCodeAt(0));
  }
}

export class TextDecoder {
  encoding = 'utf-8';

  decode(given = new Uint8Array()) {
    const bytes = new Uint8Array(given.buffer ?? given, given.byteOffset ?? 0, given.byteLength);
    let text = '';
    for (let at = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0; at < bytes.length; ) {
      const { point, size } = character(bytes, at);
      text += String.fromCodePoint(point);
      at += size;
    }
    return text;
  }
}

/** The bits and the smallest character of each length. */
const LENGTHS = [
  [0x80, 0x00, 0x7f, 0],
  [0xe0, 0xc0, 0x1f, 0x80],
  [0xf0, 0xe0, 0x0f, 0x800],
  [0xf8, 0xf0, 0x07, 0x10000],
];

function character(bytes, at) {
  const broken = { point: 0xfffd, size: 1 };
  const size = LENGTHS.findIndex(([mask, bits]) => (bytes[at] & mask) === bits) + 1;
  if (size === 0) return broken;
  const [, , mask, smallest] = LENGTHS[size - 1];
  let point = bytes[at] & mask;
  for (let next = at + 1; next < at + size; next += 1) {
    if ((bytes[next] & 0xc0) !== 0x80) return broken;
    point = (point << 6) | (bytes[next] & 0x3f);
  }
  const isWrong = point < smallest || point > 0x10ffff || (point >= 0xd800 && point < 0xe000);
  return isWrong ? broken : { point, size };
}
