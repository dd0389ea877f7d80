// Half a megabyte of JSON: written, encoded, decoded, read and summed.

import { handler } from 'host-jobs';

handler('big_json', {}, (ctx, { rows }) => {
  const text = JSON.stringify(Array.from({ length: rows }, (_, id) => ({ id, name: `Zoë №${id}`, tags: ['a', 'b'], price: id / 4 })));
  const read = JSON.parse(new TextDecoder().decode(new TextEncoder().encode(text)));
  return { length: text.length, sum: read.reduce((sum, { price }) => sum + price, 0), last: read.at(-1).name };
});
