// Handlers that fail deep inside, and that send requests with the SDK and with the engine's own `fetch`.

import { handler } from 'host-jobs';

interface Node {
  readonly below: Node;
}

export const throws = handler('throws', {}, async () => {
  await Promise.resolve();
  return deep(3);
});

async function deep(n: number): Promise<number> {
  if (n === 0) {
    throw new RangeError('not caught here');
  }
  return (await deep(n - 1)) satisfies number;
}

export const reads = handler('reads', {}, (ctx, params) => (params as Node).below.below);

const url = { type: 'object', properties: { url: { type: 'string' } }, required: ['url'] } as const;

const options = { method: 'POST', body: 'hello', headers: { 'x-from': 'handler' } };

export const fetches = handler('fetches', { params: url }, async (ctx, params) => {
  const response = await ctx.fetch(params.url, options);
  return [response.status, await response.text()];
});

export const fetchesItself = handler('fetches-itself', { params: url }, async (ctx, params) => {
  const response = await fetch(params.url, options);
  return [response.status, await response.text()];
});

export const random = handler('random', {}, () => Math.random());

const made = Date.now();

export const atImport = handler('at-import', {}, () => made);
