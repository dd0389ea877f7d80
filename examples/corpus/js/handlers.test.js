// Each program returns with the mock host what `cases.json` says.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { MockHost, Response, Retry } from 'host-jobs';

import './handlers.js';

const ORIGIN = 'http://api.example.com';
const read = (name) => JSON.parse(readFileSync(name, 'utf8').replaceAll('{origin}', ORIGIN));
const answers = read('answers.json');

const answer = ({ url }) => {
  const [status, body] = answers[url.replace(ORIGIN, '')];
  return new Response(body, { status });
};

for (const { handler, params, retries, then } of read('cases.json')) {
  const { result, failure } = then;
  test(handler, async () => {
    const call = (attempt) => new MockHost({ attempt, answer }).call(handler, params);
    if (failure) {
      await assert.rejects(call(1), ({ name, message, kind }) => message === failure.message && [name, kind].includes(failure.kind));
      return;
    }
    if (retries) await assert.rejects(call(1), Retry);
    assert.deepEqual(await call(retries ? 2 : 1), result);
  });
}
