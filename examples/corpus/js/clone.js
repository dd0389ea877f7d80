// Copies of values with cycles, maps, sets, dates and bytes.

import { handler } from 'host-jobs';

handler('clone', {}, () => {
  const order = { at: new Date(0), tags: new Set(['a']), by: new Map([[1, { n: 1n }]]), bytes: new Uint8Array([1, 2]) };
  order.self = order;
  const copy = structuredClone(order);
  copy.by.get(1).n += 1n;
  return [copy !== order, copy.self === copy, copy.at.getTime(), [...copy.tags], String(order.by.get(1).n), String(copy.by.get(1).n), [...copy.bytes]];
});
