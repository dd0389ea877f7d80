// What engines are compared by. Each handler returns a number, so that all can be seen to have done the same.

import { handler } from 'host-jobs';

const LINE = 'täglich, 12.5; "a b"\n';

handler('text', {}, () => {
  const bytes = new TextEncoder().encode(LINE.repeat(50_000));
  const lines = new TextDecoder().decode(bytes).split('\n');
  return lines.reduce((count, line) => count + line.toUpperCase().replaceAll('"', '').split(' ').length, 0);
});

handler('json', {}, () => {
  const rows = Array.from({ length: 10_000 }, (_, id) => ({ id, name: `name ${id}`, tags: ['a', 'b'], price: id / 4 }));
  return JSON.parse(JSON.stringify(rows)).reduce((sum, { price }) => sum + price, 0);
});

const next = async (number) => number + 1;

handler('promises', {}, async () => {
  let number = 0;
  while (number < 50_000) number = await next(number);
  const many = await Promise.all(Array.from({ length: 10_000 }, () => next(number)));
  return number + many.length;
});

const fibonacci = (number) => (number < 2 ? number : fibonacci(number - 1) + fibonacci(number - 2));

handler('recursion', {}, () => fibonacci(25));
