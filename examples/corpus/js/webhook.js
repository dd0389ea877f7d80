// The signature of a webhook: HMAC-SHA-256 of time and body, compared in constant time.

import { handler } from 'host-jobs';

const encode = (text) => new TextEncoder().encode(text);

handler('webhook', {}, async (ctx, { secret, header, body }) => {
  const { t, v1 } = Object.fromEntries(header.split(',').map((part) => part.split('=')));
  const algorithm = { name: 'HMAC', hash: 'SHA-256' };
  const key = await crypto.subtle.importKey('raw', encode(secret), algorithm, false, ['verify']);
  const signature = Uint8Array.from(v1.match(/../g), (digits) => Number.parseInt(digits, 16));
  return crypto.subtle.verify('HMAC', key, signature, encode(`${t}.${body}`));
});
