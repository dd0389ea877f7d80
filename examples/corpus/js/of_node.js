// Modules of Node that are there in a component too.

import { createHash, createHmac } from 'node:crypto';
import { EventEmitter } from 'node:events';
import path from 'node:path';
import querystring from 'node:querystring';
import { format, inspect } from 'node:util';
import { gunzipSync, gzipSync } from 'node:zlib';

import { handler } from 'host-jobs';

handler('of_node', {}, () => {
  const seen = [];
  const events = new EventEmitter().once('a', (value) => seen.push(value));
  events.emit('a', 1);
  events.emit('a', 2);
  return {
    seen,
    path: path.join('/a/b', '../c.txt'),
    query: querystring.stringify({ a: [1, 2] }),
    text: format('%s is %d', 'a', 1),
    shown: inspect({ a: [1, { b: 2 }] }),
    base64: Buffer.from('äö').toString('base64'),
    md5: createHash('md5').update('a').digest('hex'),
    hmac: createHmac('sha256', 'k').update('a').digest('base64'),
    zip: gunzipSync(gzipSync(Buffer.from('hello '.repeat(50)))).length,
  };
});
