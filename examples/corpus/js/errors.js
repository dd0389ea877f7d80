// Errors of one's own, with causes: several at the same time become one.

import { handler } from 'host-jobs';

class ImportError extends Error {
  name = 'ImportError';
}

const row = async (n) => {
  if (n % 2) throw new RangeError(`row ${n} is odd`);
  return n;
};

handler('errors', {}, async (ctx, { rows }) => {
  const ended = await Promise.allSettled(rows.map(row));
  const reasons = ended.filter(({ status }) => status === 'rejected').map(({ reason }) => reason);
  if (reasons.length === 0) return ended.map(({ value }) => value);
  throw new ImportError(`${reasons.length} rows are wrong`, { cause: new AggregateError(reasons, 'the rows') });
});
