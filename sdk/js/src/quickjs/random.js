// Numbers that differ from attempt to attempt: xoshiro128**, begun with 128 random bits. The engine's own begin with the same
// one in each instance, because an instance begins where its component was built. They are not for secrets.

const state = new Uint32Array([1, 2, 3, 4]);

/** Begins a sequence with four numbers of 32 bits. */
export function seed(numbers) {
  state.set(numbers);
  // It cannot begin with nothing but zeros.
  if (state.every((part) => part === 0)) state[0] = 1;
}

/** Returns a number from 0 to below 1. */
export function random() {
  return (next() * 0x200000 + (next() >>> 11)) / 2 ** 53;
}

const rotated = (value, by) => (value << by) | (value >>> (32 - by));

function next() {
  const result = Math.imul(rotated(Math.imul(state[1], 5), 7), 9) >>> 0;
  const shifted = state[1] << 9;
  state[2] ^= state[0];
  state[3] ^= state[1];
  state[1] ^= state[2];
  state[0] ^= state[3];
  state[2] ^= shifted;
  state[3] = rotated(state[3], 11);
  return result;
}
