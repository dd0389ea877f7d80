// Tests that pass in Node. Those with `only here` in their names fail in a component.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, afterEach, before, beforeEach, describe, it, mock, test } from 'node:test';

import { MockHost, Response } from 'host-jobs';

import { finds, posts, reads } from './handlers.js';

test('a file, only here', async () => {
  assert.equal(await new MockHost().run(reads), 'a,b\n');
});

test('a folder, only here', async () => {
  assert.equal(await new MockHost().run(finds), true);
});

test('a file of the tests', () => {
  assert.equal(readFileSync('rows.csv', 'utf8'), 'a,b\n');
  assert.equal(readFileSync(new URL('./rows.csv', import.meta.url)).length, 4);
});

test('strict is strict', () => {
  assert.throws(() => assert.deepEqual({ a: 1 }, { a: '1' }), { name: 'AssertionError' });
  assert.throws(() => assert.equal(1, '1'));
  assert.match('one', /^o/);
});

describe('hooks', () => {
  const order = [];
  before(() => order.push('before'));
  beforeEach(() => order.push('before each'));
  afterEach(() => order.push('after each'));
  after(() => assert.deepEqual(order.slice(-1), ['after each']));

  describe('of suites within suites', () => {
    beforeEach(async () => order.push('inner'));

    it('run in their order', () => {
      assert.deepEqual(order.slice(-2), ['before each', 'inner']);
    });
  });
});

describe('skipped', { skip: 'not today' }, () => {
  it('is not run', () => assert.fail());
});

test.todo('to do');

test('a test may have parts', async (t) => {
  let parts = 0;
  await t.test('one', () => void parts++);
  await t.test('two', () => void parts++);
  assert.equal(parts, 2);
});

test('a test may call back', (t, done) => {
  setTimeout(done, 1);
});

test('functions are mocked', async () => {
  const answer = mock.fn(() => new Response('', { status: 201 }));
  assert.equal(await new MockHost({ answer }).run(posts, { to: 'https://a.example/' }), 201);
  assert.equal(answer.mock.callCount(), 1);
  assert.equal(answer.mock.calls[0].arguments[0].method, 'POST');
});
