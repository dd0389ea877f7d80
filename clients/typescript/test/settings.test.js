// The cases of `clients/cases.json`, on which the clients agree: where the host is, and what is shown to it.

import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { inspect } from 'node:util';

import { Client, SettingsError } from 'host-jobs-client';

import { resolve } from '../src/settings.js';

const cases = JSON.parse(readFileSync(new URL('../../cases.json', import.meta.url), 'utf8'));

function check({ given, context, contexts, env, then }, folder) {
  const file = join(folder, 'token');
  const filled = (text) => text.replaceAll('{token_file}', file);
  writeFileSync(file, 'hst_file\n');
  mkdirSync(join(folder, 'host'));
  if (contexts) writeFileSync(join(folder, 'host/contexts.toml'), filled(contexts));
  for (const name of ['HOST_SERVER', 'HOST_TOKEN', 'HOST_TOKEN_FILE']) delete process.env[name];
  for (const [key, value] of Object.entries(env ?? {})) process.env[key] = filled(value);
  process.env.XDG_CONFIG_HOME = folder;
  if (then.refused) {
    const isIt = (error) => {
      assert(error instanceof SettingsError, inspect(error));
      assert(error.message.includes(then.refused), error.message);
      return !error.message.includes('hst_env');
    };
    assert.throws(() => new Client({ server: given, context }), isIt);
    return;
  }
  const expected = { server: then.server, token: then.token };
  assert.deepEqual(resolve({ server: given, context }), { ...expected, fetch: undefined });
  const client = new Client({ server: given, context });
  assert(!inspect(client, { depth: 9, showHidden: true }).includes('hst_'));
}

test('the cases', () => {
  for (const it of cases) {
    const folder = mkdtempSync(join(tmpdir(), 'client-'));
    try {
      check(it, folder);
    } catch (error) {
      throw new Error(JSON.stringify(it), { cause: error });
    } finally {
      rmSync(folder, { recursive: true });
    }
  }
});
