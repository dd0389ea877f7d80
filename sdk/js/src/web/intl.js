// `Intl` in English, and the methods that use it.

import { DateTimeFormat, format, formatter } from './intl/dates.js';
import { NumberFormat, PluralRules } from './intl/numbers.js';

/** Lets what was made without `new` be made. */
const callable = (of) => new Proxy(of, { apply: (it, self, given) => new it(...given) });

export const Intl = {
  DateTimeFormat: callable(DateTimeFormat),
  NumberFormat: callable(NumberFormat),
  PluralRules,
};
Object.defineProperty(Intl, Symbol.toStringTag, { value: 'Intl' });

const shown = (required, usual) =>
  function toLocale(locales, options) {
    return Number.isNaN(this.getTime()) ? 'Invalid Date' : format(formatter(locales, options, required, usual), this);
  };

const numberToLocale = function toLocaleString(locales, options) {
  return new NumberFormat(locales, options).format(this.valueOf());
};

const methods = [
  [Date.prototype, 'toLocaleString', shown('any', 'any')],
  [Date.prototype, 'toLocaleDateString', shown('date', 'date')],
  [Date.prototype, 'toLocaleTimeString', shown('time', 'time')],
  [Number.prototype, 'toLocaleString', numberToLocale],
  [BigInt.prototype, 'toLocaleString', numberToLocale],
];
for (const [of, name, value] of methods) Object.defineProperty(of, name, { value, configurable: true, writable: true });
