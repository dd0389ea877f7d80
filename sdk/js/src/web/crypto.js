// `crypto`: random numbers, digests and HMAC. The rest of the standard is in the engine StarlingMonkey.

import { hmac } from '@noble/hashes/hmac.js';
import { sha1 } from '@noble/hashes/legacy.js';
import { sha256, sha384, sha512 } from '@noble/hashes/sha2.js';
import { getRandomBytes } from 'wasi:random/random@0.2.6';

const HASHES = { 'SHA-1': sha1, 'SHA-256': sha256, 'SHA-384': sha384, 'SHA-512': sha512 };

/** The most bytes of one call of `getRandomValues`, as the standard says. */
const RANDOM_MAX = 65_536;

const bytesOf = (given) => new Uint8Array(given.buffer ?? given, given.byteOffset ?? 0, given.byteLength);

const nameOf = (algorithm) => String(algorithm?.name ?? algorithm).toUpperCase();

function hashOf(algorithm) {
  const name = nameOf(algorithm);
  return HASHES[name] ?? unsupported(name);
}

function unsupported(what) {
  const there = 'there are digests with SHA-1, SHA-256, SHA-384 and SHA-512, and HMAC';
  const message = `crypto.subtle has no ${what} here: ${there}; "engine": "starlingmonkey" in package.json has more`;
  throw new DOMException(message, 'NotSupportedError');
}

const same = (one, other) => {
  if (one.length !== other.length) return false;
  let differs = 0;
  for (let at = 0; at < one.length; at += 1) differs |= one[at] ^ other[at];
  return differs === 0;
};

export class CryptoKey {
  #bytes;

  constructor(bytes, algorithm, extractable, usages) {
    this.#bytes = bytes;
    Object.assign(this, { type: 'secret', algorithm, extractable, usages });
  }

  static bytes(key, use) {
    if (use && !key.usages.includes(use)) throw new DOMException(`the key may not ${use}`, 'InvalidAccessError');
    return key.#bytes;
  }
}

const keyBytes = CryptoKey.bytes;
delete CryptoKey.bytes;

const BASE64URL = { alphabet: 'base64url', omitPadding: true };

function hmacKey(bytes, algorithm, extractable, usages) {
  if (nameOf(algorithm) !== 'HMAC') unsupported(`key for ${nameOf(algorithm)}`);
  const name = nameOf(algorithm.hash);
  hashOf(name);
  return new CryptoKey(bytes, { name: 'HMAC', hash: { name }, length: bytes.length * 8 }, extractable, [...usages]);
}

const mac = (key, data, use) => hmac(hashOf(key.algorithm.hash), keyBytes(key, use), bytesOf(data));

export class SubtleCrypto {
  async digest(algorithm, data) {
    return hashOf(algorithm)(bytesOf(data)).buffer;
  }

  async importKey(format, data, algorithm, extractable, usages) {
    if (format === 'raw') return hmacKey(bytesOf(data).slice(), algorithm, extractable, usages);
    if (format === 'jwk' && data.kty === 'oct') {
      return hmacKey(Uint8Array.fromBase64(data.k, { alphabet: 'base64url' }), algorithm, extractable, usages);
    }
    return unsupported(`key of the format ${format}`);
  }

  async generateKey(algorithm, extractable, usages) {
    const bits = algorithm.length ?? { 'SHA-384': 1024, 'SHA-512': 1024 }[nameOf(algorithm.hash)] ?? 512;
    return hmacKey(getRandomBytes(bits / 8), algorithm, extractable, usages);
  }

  async exportKey(format, key) {
    if (!key.extractable) throw new DOMException('the key may not be exported', 'InvalidAccessError');
    const bytes = keyBytes(key);
    if (format === 'raw') return bytes.slice().buffer;
    if (format !== 'jwk') return unsupported(`export in the format ${format}`);
    const alg = key.algorithm.hash.name.replace('SHA-', 'HS');
    return { kty: 'oct', k: bytes.toBase64(BASE64URL), alg, ext: true, key_ops: [...key.usages] };
  }

  async sign(algorithm, key, data) {
    if (nameOf(algorithm) !== 'HMAC') unsupported(nameOf(algorithm));
    return mac(key, data, 'sign').buffer;
  }

  async verify(algorithm, key, signature, data) {
    if (nameOf(algorithm) !== 'HMAC') unsupported(nameOf(algorithm));
    return same(mac(key, data, 'verify'), bytesOf(signature));
  }
}

for (const name of ['encrypt', 'decrypt', 'deriveKey', 'deriveBits', 'wrapKey', 'unwrapKey']) {
  SubtleCrypto.prototype[name] = async () => unsupported(name);
}

export class Crypto {
  subtle = new SubtleCrypto();

  getRandomValues(into) {
    if (into.byteLength > RANDOM_MAX) throw new DOMException(`at most ${RANDOM_MAX} random bytes in one call`, 'QuotaExceededError');
    bytesOf(into).set(getRandomBytes(into.byteLength));
    return into;
  }

  randomUUID() {
    const bytes = getRandomBytes(16);
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    return bytes.toHex().replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
  }
}

export const crypto = new Crypto();
