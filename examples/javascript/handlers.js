// A first real job: fetches orders from an API page by page, enqueues a job for each, and remembers how far it came.

import { handler } from 'host-jobs';

/** Where the cursor is kept. */
const CURSOR = 'cursor';

const order = {
  type: 'object',
  properties: { id: { type: 'string' }, cents: { type: 'integer' } },
  required: ['id', 'cents'],
};

export const fetchOrders = handler(
  'fetch-orders',
  {
    description: 'Fetches new orders and enqueues a job for each.',
    params: {
      type: 'object',
      properties: {
        url: { type: 'string', description: 'The address of the orders, without a query.' },
        pages: { type: 'integer', description: 'How many pages one attempt fetches; the rest follows with the next job.' },
      },
      required: ['url', 'pages'],
    },
    result: {
      type: 'object',
      properties: {
        orders: { type: 'integer' },
        cursor: { type: ['string', 'null'], description: 'Where the next job continues.' },
      },
      required: ['orders', 'cursor'],
    },
  },
  async (ctx, { url, pages }) => {
    let cursor = ctx.state.get(CURSOR) ?? null;
    let orders = 0;
    for (let page = 1; page <= pages; page += 1) {
      ctx.checkCancelled();
      const response = await ctx.fetch(`${url}?after=${encodeURIComponent(cursor ?? '')}`);
      const found = await response.throwForStatus().json();
      orders += found.orders.length;
      ctx.enqueueAll(found.orders.map((params) => ({ handler: 'import-order', params, queue: 'orders' })));
      ctx.progress((100 * page) / pages, `${orders} orders`);
      if (found.next === null) break;
      cursor = found.next;
    }
    // The jobs and the cursor are stored together, exactly if this attempt completes.
    ctx.state.set(CURSOR, cursor);
    return { orders, cursor };
  },
);

export const importOrder = handler(
  'import-order',
  { description: 'Imports one order.', params: order, result: order },
  (ctx, { id, cents }) => {
    ctx.info('imported', { order: id, cents });
    return { id, cents };
  },
);
