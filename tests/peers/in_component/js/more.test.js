// Tests that fail in Node too, or would not have an instance of their own there.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { MockHost } from 'host-jobs';

import './handlers.js';

const remembers = async () => assert.equal(await new MockHost().call('remembers'), 1);

test('remembers nothing', remembers);
test('remembers nothing of another test', remembers);

test('fails', () => {
  console.log('printed before it fails');
  assert.deepEqual({ sum: 1 + 1 }, { sum: 3 });
});

test('a part fails', async (t) => {
  await t.test('the part', () => {
    throw new RangeError('off');
  });
});
