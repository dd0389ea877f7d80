// Schemas, stacks and responses.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { handler, JobError, MockHost, Response } from 'host-jobs';

import { failure } from '../src/errors.js';
import { misfit } from '../src/schema.js';
import { located } from '../src/source_map.js';

test('a category has one spelling, and others are accepted', () => {
  for (const category of ['DATA_QUALITY', 'data_quality', 'data-quality']) {
    const error = new JobError('no', { category });
    assert.equal(error.category, 'DATA_QUALITY');
    assert.equal(failure(error).val.category, 'data-quality');
  }
  assert.throws(() => new JobError('no', { category: 'mine' }), /expected one of USER_CODE, .*, got mine/);
});

test('what does not fit has its path', () => {
  const schema = {
    type: 'object',
    properties: {
      name: { type: 'string' },
      size: { enum: ['s', 'l'] },
      rows: { type: 'array', items: { type: ['integer', 'null'] } },
      one: { anyOf: [{ const: 1 }, { type: 'boolean' }] },
    },
    required: ['name'],
  };
  for (const [value, expected] of [
    [{ name: 'a', size: 's', rows: [1, null], one: false, more: 1 }, undefined],
    [{}, 'name is missing'],
    [[], 'the whole is [], not object'],
    [{ name: 1 }, 'name is 1, not string'],
    [{ name: 'a', size: 'x' }, 'size is "x", not one of ["s","l"]'],
    [{ name: 'a', rows: [1, 0.5] }, 'rows[1] is 0.5, not integer or null'],
    [{ name: 'a', one: 2 }, 'one is 2, not any of what it may be'],
  ]) {
    assert.equal(misfit(schema, value), expected);
  }
});

test('stacks of both engines get the lines of the author', () => {
  globalThis.sourceMapOfHandlers = { sources: ['handlers.ts'], lines: ';0 0 7,a 0 8;' };
  const quickjs = '    at deep (/bundle.js:2:12)\n    at <anonymous> (/bundle.js:1:3)\n    at call (native)';
  assert.equal(located(quickjs), '    at deep (handlers.ts:8)');
  assert.equal(located('deep@bundle.js:2:3\n@bundle.js:3:1\n'), '    at deep (handlers.ts:7)');
  delete globalThis.sourceMapOfHandlers;
  const thrown = new RangeError('out');
  thrown.stack = quickjs;
  assert.equal(failure(thrown).val.stack.split('\n')[0], 'RangeError: out');
  assert.equal(failure('a text').val.message, 'a text');
});

test('a response is read as text, bytes and JSON', async () => {
  const response = new Response({ a: 'ä' }, { status: 201, headers: { 'X-One': '1' } });
  assert.equal(await response.text(), '{"a":"ä"}');
  assert.deepEqual(await response.json(), { a: 'ä' });
  assert.equal((await response.arrayBuffer()).byteLength, (await response.bytes()).length);
  assert.deepEqual([...response.headers], [['content-type', 'application/json'], ['x-one', '1']]);
  assert.equal(response.headers.get('x-ONE'), '1');
  await assert.rejects(new Response('no').json(), { kind: 'http_invalid_json' });
});

test('a result without JSON is an error that is not retried', async () => {
  handler('loop', {}, () => {
    const result = {};
    result.result = result;
    return result;
  });
  await assert.rejects(new MockHost().call('loop'), { kind: 'invalid_result', retryable: false });
});
