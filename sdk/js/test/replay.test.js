// Requests are answered as they were recorded; the other SDKs read the same recording.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { MockHost } from 'host-jobs';

const recording = readFileSync(new URL('../../recording.har', import.meta.url), 'utf8');

test('requests are answered as they were recorded', async () => {
  const { ctx } = new MockHost({ replay: recording });
  const rows = (options) => ctx.fetch('https://a.com/rows', options);
  const first = await rows();
  assert.deepEqual(await first.json(), [1]);
  assert.deepEqual([...first.headers], [['content-type', 'application/json']]);
  for (let n = 0; n < 2; n++) assert.equal((await rows()).status, 503);
  assert.equal((await rows({ method: 'POST', body: '7' })).status, 201);
  const message = 'POST https://a.com/rows is not in the recording';
  await assert.rejects(rows({ method: 'POST', body: '8' }), { message });
  assert.deepEqual([...(await ctx.fetch('https://a.com/picture')).content], [0, 0xff, 0x90, 0xff]);
  await assert.rejects(ctx.fetch('https://a.com/blocked'), /got no response/);
});
