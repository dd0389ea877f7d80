// `node:crypto`: hashes, HMAC and random values.

import { Buffer } from 'node:buffer';

import { hmac } from '@noble/hashes/hmac.js';
import { md5, ripemd160, sha1 } from '@noble/hashes/legacy.js';
import { pbkdf2 } from '@noble/hashes/pbkdf2.js';
import { sha224, sha256, sha384, sha512 } from '@noble/hashes/sha2.js';

const HASHES = { md5, ripemd160, sha1, sha224, sha256, sha384, sha512 };

function hashOf(algorithm) {
  const name = String(algorithm).toLowerCase().replace(/^rsa-/, '').replace('-', '');
  if (Object.hasOwn(HASHES, name)) return HASHES[name];
  throw new Error(`node:crypto has no hash ${algorithm} in a component; it has ${Object.keys(HASHES).join(', ')}`);
}

const bytesOf = (data, encoding) => (typeof data === 'string' ? Buffer.from(data, encoding) : new Uint8Array(data.buffer ?? data, data.byteOffset ?? 0, data.byteLength));

class Digest {
  #hash;

  constructor(hash) {
    this.#hash = hash;
  }

  update(data, encoding) {
    this.#hash.update(bytesOf(data, encoding));
    return this;
  }

  digest(encoding) {
    const bytes = Buffer.from(this.#hash.digest());
    return encoding && encoding !== 'buffer' ? bytes.toString(encoding) : bytes;
  }

  copy() {
    return new Digest(this.#hash.clone());
  }
}

export const createHash = (algorithm) => new Digest(hashOf(algorithm).create());

export const createHmac = (algorithm, key) => new Digest(hmac.create(hashOf(algorithm), bytesOf(key?.bytes ?? key, 'utf8')));

export const hash = (algorithm, data, encoding = 'hex') => createHash(algorithm).update(data).digest(encoding);

export const getHashes = () => Object.keys(HASHES);

export const createSecretKey = (key, encoding) => {
  const bytes = Buffer.from(bytesOf(key, encoding));
  return { type: 'secret', bytes, symmetricKeySize: bytes.length, export: () => bytes };
};

export function timingSafeEqual(one, other) {
  const [first, second] = [bytesOf(one), bytesOf(other)];
  if (first.length !== second.length) throw new RangeError('Input buffers must have the same byte length');
  let differs = 0;
  for (let at = 0; at < first.length; at += 1) differs |= first[at] ^ second[at];
  return differs === 0;
}

export function randomFillSync(into) {
  const bytes = bytesOf(into);
  for (let at = 0; at < bytes.length; at += 65_536) globalThis.crypto.getRandomValues(bytes.subarray(at, at + 65_536));
  return into;
}

export function randomBytes(size, callback) {
  const bytes = randomFillSync(Buffer.alloc(size));
  if (!callback) return bytes;
  queueMicrotask(() => callback(null, bytes));
  return undefined;
}

export const randomUUID = () => globalThis.crypto.randomUUID();

export const getRandomValues = (into) => globalThis.crypto.getRandomValues(into);

export function randomInt(low, high) {
  const [from, to] = high === undefined || typeof high === 'function' ? [0, low] : [low, high];
  const bytes = globalThis.crypto.getRandomValues(new Uint32Array(2));
  return from + Math.floor(((bytes[0] * 0x200000 + (bytes[1] >>> 11)) / 2 ** 53) * (to - from));
}

export const pbkdf2Sync = (password, salt, iterations, size, algorithm) =>
  Buffer.from(pbkdf2(hashOf(algorithm), bytesOf(password), bytesOf(salt), { c: iterations, dkLen: size }));

/** What is there in Node and not here. */
const refused = (name) =>
  function refuse() {
    throw new Error(`node:crypto has no ${name} in a component; it has hashes, HMAC, pbkdf2 and random values`);
  };

export const createCipheriv = refused('createCipheriv');
export const createDecipheriv = refused('createDecipheriv');
export const createPrivateKey = refused('createPrivateKey');
export const createPublicKey = refused('createPublicKey');
export const createSign = refused('createSign');
export const createVerify = refused('createVerify');
export const generateKeyPairSync = refused('generateKeyPairSync');
export const privateDecrypt = refused('privateDecrypt');
export const publicEncrypt = refused('publicEncrypt');
export const scryptSync = refused('scryptSync');
export const sign = refused('sign');
export const verify = refused('verify');

export class KeyObject {}

export const constants = { RSA_PKCS1_PADDING: 1, RSA_PKCS1_OAEP_PADDING: 4, RSA_PKCS1_PSS_PADDING: 6, RSA_PSS_SALTLEN_DIGEST: -1 };

export const webcrypto = globalThis.crypto;
export const subtle = globalThis.crypto?.subtle;

export default {
  constants,
  createCipheriv,
  createDecipheriv,
  createHash,
  createHmac,
  createPrivateKey,
  createPublicKey,
  createSecretKey,
  createSign,
  createVerify,
  generateKeyPairSync,
  getHashes,
  getRandomValues,
  hash,
  KeyObject,
  pbkdf2Sync,
  privateDecrypt,
  publicEncrypt,
  randomBytes,
  randomFillSync,
  randomInt,
  randomUUID,
  scryptSync,
  sign,
  subtle,
  timingSafeEqual,
  verify,
  webcrypto,
};
