// Addresses without what tracks people, in one order.

import { handler } from 'host-jobs';

handler('urls', {}, (ctx, { urls }) =>
  urls.map((text) => {
    const url = new URL(text, 'https://example.com/shop/');
    for (const name of [...url.searchParams.keys()]) if (name.startsWith('utm_')) url.searchParams.delete(name);
    url.searchParams.sort();
    url.hash = '';
    return url.href;
  }),
);
