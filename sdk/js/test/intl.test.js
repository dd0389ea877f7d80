// Our `Intl` formats as that of Node does.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { DateTimeFormat, format, formatter } from '../src/web/intl/dates.js';
import { NumberFormat, PluralRules } from '../src/web/intl/numbers.js';
import { setRules } from '../src/web/intl/zones.js';

setRules(
  [
    'America/New_York|EST EDT|50 40|010101010101010|1Vkv0 1zb0 Op0 1zb0 Op0 1zb0 Rd0 1zb0 Op0 1zb0 Op0 1zb0 Op0 1zb0|21e6',
    'Europe/Zurich|CET CEST|-10 -20|010101010101010|1Vq10 1qM0 11A0 1o00 11A0 1o00 11A0 1qM0 WM0 1qM0 WM0 1qM0 11A0 1o00|38e4',
    'Asia/Kolkata|IST|-5u|0||15e6',
    'Europe/Busingen|Europe/Zurich',
    'Europe/Vaduz|Europe/Busingen',
  ].join('\n'),
);

const ZONES = ['UTC', 'Europe/Zurich', 'Europe/Vaduz', 'America/New_York', 'Asia/Kolkata'];
const TIMES = ['2019-03-20T23:05:09.007Z', '2021-07-01T00:00:00Z', '2022-03-27T00:59:59Z', '2022-03-27T01:00:00Z', '2023-11-05T06:00:00.999Z'];

const date = { year: 'numeric', month: 'long', day: 'numeric' };
const DATES = [
  ...[{}, { weekday: 'long' }, { weekday: 'short', ...date, month: 'short' }, { ...date, weekday: 'long' }, { ...date, hour: 'numeric', minute: '2-digit' }],
  ...['full', 'long', 'medium', 'short'].flatMap((dateStyle) => [{ dateStyle }, { dateStyle, timeStyle: 'short' }]),
  ...['full', 'long', 'medium', 'short'].map((timeStyle) => ({ timeStyle })),
  ...['long', 'short', 'narrow', 'numeric', '2-digit'].flatMap((month) => [{ month }, { month, day: 'numeric' }, { month, year: 'numeric' }]),
  ...['h11', 'h12', 'h23', 'h24'].flatMap((hourCycle) => [{ hour: 'numeric', hourCycle }, { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle }]),
  ...['short', 'shortOffset', 'longOffset'].map((timeZoneName) => ({ hour: 'numeric', timeZoneName })),
  ...[{ year: '2-digit', month: '2-digit', day: '2-digit' }, { second: 'numeric', fractionalSecondDigits: 2 }, { minute: 'numeric', second: 'numeric' }],
  ...[{ weekday: 'short', hour: 'numeric' }, { weekday: 'long', day: 'numeric' }, { day: 'numeric', hour: 'numeric' }, { hour: 'numeric', hour12: true }],
];

const NUMBERS = [0, -0, 1, -1, 1.005, 2.675, 0.5, 2.5, -2.5, 1234.5, 999999.5, 1234567.891, 1e21, 1.5e-7, 0.1 + 0.2, NaN, -Infinity, 123n, 12345678901234567890n, '12.50'];
const CURRENCIES = ['USD', 'EUR', 'CHF', 'JPY', 'KWD', 'INR', 'CAD', 'SEK'];
const FORMATS = [
  ...[{}, { style: 'percent' }, { style: 'percent', maximumFractionDigits: 1 }, { minimumFractionDigits: 2 }, { maximumFractionDigits: 0 }],
  ...[{ minimumFractionDigits: 2, maximumFractionDigits: 4 }, { maximumSignificantDigits: 3 }, { minimumSignificantDigits: 4 }, { minimumIntegerDigits: 3 }],
  ...[false, true, 'min2'].map((useGrouping) => ({ useGrouping })),
  ...['always', 'never', 'exceptZero', 'negative'].map((signDisplay) => ({ signDisplay })),
  ...['ceil', 'floor', 'expand', 'trunc', 'halfEven', 'halfTrunc'].map((roundingMode) => ({ roundingMode, maximumFractionDigits: 0 })),
  ...['short', 'long'].map((compactDisplay) => ({ notation: 'compact', compactDisplay })),
  ...CURRENCIES.flatMap((currency) => ['symbol', 'code', 'narrowSymbol'].map((currencyDisplay) => ({ style: 'currency', currency, currencyDisplay }))),
  ...['USD', 'EUR', 'CHF'].map((currency) => ({ style: 'currency', currency, currencyDisplay: 'name' })),
  ...[{ currencySign: 'accounting' }, { maximumFractionDigits: 0 }, { notation: 'compact' }].map((more) => ({ style: 'currency', currency: 'USD', ...more })),
];

/** The space before AM and PM is narrow in some versions of Node. */
const plain = (text) => text.replaceAll('\u202f', ' ');

test('dates are as in Node', () => {
  for (const timeZone of ZONES) {
    for (const options of DATES) {
      // The names of most zones are not there.
      if (options.timeStyle === 'full' && timeZone.startsWith('Asia/')) continue;
      const [ours, nodes] = [DateTimeFormat, Intl.DateTimeFormat].map((Format) => new Format('en-US', { ...options, timeZone }));
      for (const time of TIMES) {
        const at = new Date(time);
        assert.equal(ours.format(at), plain(nodes.format(at)), `${time} ${timeZone} ${JSON.stringify(options)}`);
        const shown = nodes.formatToParts(at).map(({ type, value }) => ({ type, value: plain(value) }));
        assert.deepEqual(ours.formatToParts(at), shown);
      }
    }
  }
});

test('methods of dates choose their fields', () => {
  const at = new Date(TIMES[0]);
  const methods = [['toLocaleString', 'any', 'any'], ['toLocaleDateString', 'date', 'date'], ['toLocaleTimeString', 'time', 'time']];
  for (const [method, required, usual] of methods) {
    for (const options of [{}, { month: 'long' }, { hour: 'numeric' }, { timeZoneName: 'short' }]) {
      const all = { ...options, timeZone: 'Asia/Kolkata' };
      assert.equal(format(formatter('en', all, required, usual), at), plain(at[method]('en', all)), `${method} ${JSON.stringify(options)}`);
    }
  }
});

test('without a cycle of hours, a day begins with 00', () => {
  const midnight = new Date('2026-01-01T00:05:00Z');
  assert.equal(new DateTimeFormat('en', { timeStyle: 'short', hour12: false }).format(midnight), '00:05');
  assert.equal(new DateTimeFormat('en', { timeStyle: 'short', timeZone: '-01:30' }).format(midnight), '10:35 PM');
});

test('numbers are as in Node', () => {
  for (const options of FORMATS) {
    const [ours, nodes] = [NumberFormat, Intl.NumberFormat].map((Format) => new Format('en', options));
    for (const number of NUMBERS) {
      assert.equal(ours.format(number), nodes.format(number), `${number} ${JSON.stringify(options)}`);
      assert.deepEqual(ours.formatToParts(number), nodes.formatToParts(number));
    }
  }
});

test('plurals are as in Node', () => {
  for (const type of ['cardinal', 'ordinal']) {
    const [ours, nodes] = [PluralRules, Intl.PluralRules].map((Rules) => new Rules('en', { type }));
    for (let number = 0; number < 125; number += 0.5) assert.equal(ours.select(number), nodes.select(number), `${type} ${number}`);
  }
});

test('wrong options are refused as in Node', () => {
  const wrong = [
    [DateTimeFormat, { timeZone: 'Mars/Olympus' }, RangeError],
    [DateTimeFormat, { month: 'wide' }, RangeError],
    [DateTimeFormat, { dateStyle: 'short', year: 'numeric' }, TypeError],
    [NumberFormat, { style: 'currency' }, TypeError],
    [NumberFormat, { style: 'currency', currency: 'EURO' }, RangeError],
    [NumberFormat, { minimumFractionDigits: 3, maximumFractionDigits: 2 }, RangeError],
    [NumberFormat, { maximumFractionDigits: 101 }, RangeError],
  ];
  for (const [Format, options, error] of wrong) {
    assert.throws(() => new Format('en', options), error);
    assert.throws(() => new Intl[Format.name]('en', options), error);
  }
  assert.throws(() => new NumberFormat('_'), RangeError);
});

test('another locale formats in English, and is named once', (context) => {
  const warn = context.mock.method(console, 'warn', () => {});
  for (const number of [1, 2]) assert.equal(new NumberFormat('de-CH').format(number * 1000), `${number},000`);
  assert.equal(new NumberFormat(['de-CH', 'en']).resolvedOptions().locale, 'en');
  assert.deepEqual(NumberFormat.supportedLocalesOf(['de', 'en-US']), ['en-US']);
  assert.deepEqual(warn.mock.calls.map((call) => call.arguments), [['Intl has no locale de-CH in a component with QuickJS: it formats as in en-US']]);
});
