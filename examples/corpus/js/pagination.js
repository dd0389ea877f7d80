// All orders of an API with pages, which says what the next one is.

import { handler } from 'host-jobs';

handler('pagination', {}, async (ctx, { url }) => {
  const orders = [];
  for (let next = '/orders?page=1'; next; ) {
    const page = await (await ctx.fetch(url + next)).throwForStatus().json();
    orders.push(...page.orders);
    next = page.next;
    ctx.progress(undefined, `${orders.length} orders`);
  }
  return orders.map(({ id }) => id);
});
