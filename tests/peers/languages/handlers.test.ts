// Tests of the handlers.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { MockHost, Response } from 'host-jobs';

import { fetches } from './handlers';

test('a request is sent', async () => {
  const host = new MockHost({ answer: ({ body }) => new Response(body, { status: 201 }) });
  assert.deepEqual(await host.run(fetches, { url: 'https://a.b/c' }), [201, 'hello']);
});
