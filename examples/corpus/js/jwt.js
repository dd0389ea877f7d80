// A token (JWT, HS256): made, checked, and refused once it has expired.

import { handler, JobError } from 'host-jobs';

const encode = (text) => new TextEncoder().encode(text);
const base64url = (bytes) => btoa(String.fromCharCode(...bytes)).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
const part = (value) => base64url(encode(JSON.stringify(value)));

async function signature(secret, text) {
  const key = await crypto.subtle.importKey('raw', encode(secret), { name: 'HMAC', hash: 'SHA-256' }, false, ['sign']);
  return base64url(new Uint8Array(await crypto.subtle.sign('HMAC', key, encode(text))));
}

handler('jwt', {}, async (ctx, { secret, claims, now }) => {
  const text = `${part({ alg: 'HS256', typ: 'JWT' })}.${part(claims)}`;
  if (claims.exp < now) throw new JobError('the token has expired', { kind: 'TokenExpired', category: 'DATA_QUALITY' });
  return `${text}.${await signature(secret, text)}`;
});
