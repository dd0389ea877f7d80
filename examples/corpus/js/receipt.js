// A receipt as customers read it: amounts with their currency, dates in the customer's time zone.

import { handler } from 'host-jobs';

handler('receipt', {}, (ctx, { at, timeZone, currency, lines, tip }) => {
  const money = new Intl.NumberFormat('en-US', { style: 'currency', currency });
  const total = lines.reduce((sum, { price, quantity }) => sum + price * quantity, 0);
  const date = new Date(at);
  return {
    date: date.toLocaleDateString('en-US', { timeZone, dateStyle: 'full' }),
    time: date.toLocaleTimeString('en-US', { timeZone, hour: 'numeric', minute: '2-digit', timeZoneName: 'short' }),
    lines: lines.map(({ title, price, quantity }) => `${quantity.toLocaleString('en-US')} × ${title}: ${money.format(price * quantity)}`),
    tip: tip.toLocaleString('en-US', { style: 'percent', maximumFractionDigits: 1 }),
    total: money.format(total * (1 + tip)),
  };
});
