// Totals of an invoice in cents, with VAT per rate, rounded half up.

import { handler } from 'host-jobs';

const cents = (text) => {
  const [, sign, whole, part = ''] = /^(-?)(\d+)(?:\.(\d{1,2}))?$/.exec(text);
  return BigInt(`${sign}${whole}${part.padEnd(2, '0')}`);
};

const shown = (value) => `${value / 100n}.${String(value % 100n).padStart(2, '0')}`;

handler('invoice', {}, (ctx, { lines }) => {
  const nets = new Map();
  for (const { price, quantity, vat } of lines) nets.set(vat, (nets.get(vat) ?? 0n) + cents(price) * BigInt(quantity));
  const taxes = [...nets].map(([vat, net]) => ({ vat, net, tax: (net * BigInt(vat) + 50n) / 100n }));
  const total = taxes.reduce((sum, { net, tax }) => sum + net + tax, 0n);
  return { taxes: taxes.map(({ vat, net, tax }) => ({ vat, net: shown(net), tax: shown(tax) })), total: shown(total) };
});
