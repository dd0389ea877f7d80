// Each program returns with the mock host what `cases.json` says.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { MockHost, Response, Retry } from 'host-jobs';

import './handlers.js';

const { answers, cases } = JSON.parse(readFileSync('cases.json', 'utf8').replaceAll('{origin}', 'http://api.example.com'));

const answer = ({ url }) => new Response(answers[url.replace('http://api.example.com', '')]);

for (const { handler, params, result, failure, retries } of cases) {
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
