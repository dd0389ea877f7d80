// The mock host and the real one agree on the cases of `sdk/cases.json`.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { MockHost, Response } from 'host-jobs';

import { failure } from '../src/errors.js';
import './cases.js';

const table = readFileSync(new URL('../../cases.json', import.meta.url), 'utf8');

function hostOf({ attributes, secrets, limits, files, answer, redirects, cancelled }) {
  const redirected = ({ url }) => {
    const [status, location] = redirects[url] ?? [200];
    return new Response('', { status, headers: location ? { location } : {} });
  };
  const answered = redirects ? redirected : answer && (() => new Response(answer.json, { status: answer.status }));
  const host = new MockHost({ attributes, secrets, limits, files, answer: answered });
  if (cancelled) host.cancel(cancelled);
  return host;
}

/** Returns how an attempt ends, as the table says it. */
async function ended(host, { handler, params }) {
  try {
    return { result: await host.call(handler, params) };
  } catch (thrown) {
    const { tag, val } = failure(thrown);
    if (tag === 'retry') return { retry: { reason: val.reason, after_ms: val.afterMs } };
    if (tag === 'cancelled') return { cancelled: JSON.parse(val) };
    if (val.kind === 'invalid_params') {
      assert.equal(val.category, 'data-quality');
      return { refused: val.message };
    }
    return { failure: { ...val, details: val.details && JSON.parse(val.details) } };
  }
}

for (const { name, then, given = {}, ...job } of JSON.parse(table.replaceAll('{origin}', 'http://api.example.com').replaceAll('{other}', 'http://other.example.com'))) {
  test(name, async () => {
    const host = hostOf(given);
    const outcome = await ended(host, job);
    if (then.refused) {
      assert.match(outcome.refused, new RegExp(then.refused));
    } else if (then.failure) {
      for (const [key, value] of Object.entries(then.failure)) assert.deepEqual(outcome.failure?.[key], value);
    } else {
      const { result, retry, cancelled } = then;
      assert.deepEqual({ result: undefined, retry: undefined, cancelled: undefined, ...outcome }, { result, retry, cancelled });
    }
    if (then.logs) {
      assert.deepEqual(host.logs.map(({ level, message, fields }) => [level, message, fields]), then.logs);
    }
    if (then.progress) {
      assert.deepEqual(host.progress.map(({ percent, message }) => [percent, message]), then.progress);
    }
    if (then.holds) assert.deepEqual(host.holds.map(({ limit, ms }) => [limit, ms]), then.holds);
    if (then.enqueued) assert.deepEqual(host.enqueued, then.enqueued);
    for (const [key, value] of Object.entries(then.state ?? {})) assert.deepEqual(host.state(key) ?? null, value);
    if (then.sent) {
      const namesOf = (headers) => headers.map(([name]) => name.toLowerCase()).sort().join(' ');
      assert.deepEqual(host.requests.map(({ method, url, headers, body }) => [method, url, namesOf(headers), body.length]), then.sent);
    }
    if (then.artifacts) {
      const kept = [...host.artifacts].map(([name, content]) => [name, new TextDecoder().decode(content)]);
      assert.deepEqual(Object.fromEntries(kept), then.artifacts);
    }
    if (then.requests) {
      const sent = host.requests.map(({ method, url, body }) => ({ method, url, body: JSON.parse(new TextDecoder().decode(body)) }));
      assert.deepEqual(sent, then.requests);
    }
  });
}
