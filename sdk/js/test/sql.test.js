// Databases, through the mock host.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { MockHost, SqlError } from '../src/index.js';

const shop = (statement, params) => {
  if (statement === 'SELEC') throw new SqlError({ kind: 'refused', code: '42601', message: 'syntax error' });
  return params.length > 0 ? { columns: ['name', 'price'], values: [[params[0], '1.10']], affected: 1 } : undefined;
};

test('rows are objects', () => {
  const { ctx } = new MockHost({ sql: { shop } });
  const rows = ctx.sql('shop').query('SELECT name, price FROM prices WHERE name = $1', ['tea']);
  assert.deepEqual([...rows], [{ name: 'tea', price: '1.10' }]);
  assert.equal(rows.affected, 1);
  assert.throws(() => ctx.sql('shop').query('SELEC'), { name: 'SqlError', kind: 'sql_refused', code: '42601' });
  assert.throws(() => ctx.sql('other').query('SELECT 1'), { kind: 'sql_not_granted' });
  assert.throws(() => ctx.sql('shop').query('SELECT 1', 'tea'), TypeError);
});

test('a transaction ends as its function does', async () => {
  const host = new MockHost({ sql: { shop } });
  const database = host.ctx.sql('shop');
  assert.equal(await database.transaction(async ({ query }) => query('INSERT', [1]).affected), 1);
  await assert.rejects(database.transaction(({ query }) => query('SELEC')), SqlError);
  const statements = host.statements.map(({ statement }) => statement);
  assert.deepEqual(statements, ['BEGIN', 'INSERT', 'COMMIT', 'BEGIN', 'SELEC', 'ROLLBACK']);
});
