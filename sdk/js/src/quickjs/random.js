// Numbers that differ from attempt to attempt. The engine's own begin with the same one in each instance, because an
// instance begins where its component was built. They are not for secrets.

let state = 0;

/** Begins a sequence that depends on a text. */
export function seed(text) {
  state = 0x811c9dc5;
  for (const unit of text) state = Math.imul(state ^ unit.codePointAt(0), 0x01000193);
}

/** Returns a number from 0 to below 1. */
export function random() {
  return (next() * 0x200000 + (next() >>> 11)) / 2 ** 53;
}

function next() {
  state = (state + 0x9e3779b9) | 0;
  let mixed = state ^ (state >>> 16);
  mixed = Math.imul(mixed, 0x21f0aaad);
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97);
  return (mixed ^ (mixed >>> 15)) >>> 0;
}
