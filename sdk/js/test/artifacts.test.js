// Artifacts with the mock host.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { MockHost } from '../src/index.js';

const text = (bytes) => new TextDecoder().decode(bytes);

function report(ctx, fails) {
  const file = ctx.artifacts.create('rows.csv', { contentType: 'text/csv' });
  file.write('a,1\n');
  file.write(new TextEncoder().encode('b,2\n'));
  file.close();
  ctx.artifacts.create('forgotten').write('x');
  if (fails) throw new Error('no');
}

test('artifacts are kept if the attempt completes', async () => {
  const host = new MockHost();
  await assert.rejects(host.run(report, true));
  assert.equal(host.artifacts.size, 0);
  await host.run(report, false);
  assert.deepEqual([...host.artifacts.keys()], ['rows.csv']);
  assert.equal(text(host.artifacts.get('rows.csv')), 'a,1\nb,2\n');
});
