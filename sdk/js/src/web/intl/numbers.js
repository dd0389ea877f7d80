// Intl.NumberFormat in English. Numbers are rounded in decimal, from the shortest text that is the number, so 1.005 becomes 1.01.

import { integer, joined, locale, option, supportedLocalesOf, text } from './locale.js';

const SYMBOLS = {
  AUD: 'A$', BRL: 'R$', CAD: 'CA$', CNY: 'CN¥', EUR: '€', GBP: '£', HKD: 'HK$', ILS: '₪', INR: '₹', JPY: '¥', KRW: '₩', MXN: 'MX$', NZD: 'NZ$',
  PHP: '₱', TWD: 'NT$', USD: '$', VND: '₫', XAF: 'FCFA', XCD: 'EC$', XOF: 'F\u202fCFA', XPF: 'CFPF',
};
const NARROW = { AUD: '$', CAD: '$', CNY: '¥', CZK: 'Kč', DKK: 'kr', HKD: '$', HUF: 'Ft', MXN: '$', NOK: 'kr', NZD: '$', PLN: 'zł', SEK: 'kr', SGD: '$', TRY: '₺', TWD: '$', UAH: '₴' };
const NAMES = {
  AUD: 'Australian dollar', CAD: 'Canadian dollar', CHF: 'Swiss franc', DKK: 'Danish krone', EUR: 'euro', GBP: 'British pound', INR: 'Indian rupee',
  USD: 'US dollar',
};
const PLURALS = { 'Danish krone': 'Danish kroner' };
const DIGITS = { 0: 'BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF', 3: 'BHD IQD JOD KWD LYD OMR TND' };
const COMPACT = [['', ''], ['K', ' thousand'], ['M', ' million'], ['B', ' billion'], ['T', ' trillion']];
const MODES = ['ceil', 'floor', 'expand', 'trunc', 'halfCeil', 'halfFloor', 'halfExpand', 'halfTrunc', 'halfEven'];

const digitsOf = (currency) => Number(Object.keys(DIGITS).find((count) => DIGITS[count].includes(currency)) ?? 2);

/** Returns a value as `0.DIGITS * 10 ** exponent`. */
function decimal(value) {
  const isExact = typeof value === 'bigint' || (typeof value === 'string' && /^\s*-?\d+(\.\d+)?\s*$/.test(value));
  const number = isExact ? value : Number(value);
  const written = Object.is(number, -0) ? '-0' : String(number).trim();
  const [, sign, whole, part = '', power = 0] = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(written) ?? [];
  const isNegative = sign === '-' || number === -Infinity;
  if (whole === undefined) return { isNegative, special: Number.isNaN(number) ? 'NaN' : '∞' };
  const all = whole + part;
  const digits = all.replace(/^0+/, '');
  return { isNegative, digits: digits.replace(/0+$/, ''), exponent: digits ? whole.length + Number(power) - (all.length - digits.length) : 0 };
}

/** Returns whether a magnitude is rounded away from zero. */
function isUp(mode, isNegative, kept, rest) {
  if (!/[1-9]/.test(rest)) return false;
  const half = rest[0] === '5' && !/[1-9]/.test(rest.slice(1));
  if (!mode.startsWith('half')) return mode === 'expand' || (mode === 'ceil' && !isNegative) || (mode === 'floor' && isNegative);
  if (!half) return rest[0] >= '5';
  if (mode === 'halfEven') return Number(kept.at(-1) ?? 0) % 2 === 1;
  return mode === 'halfExpand' || (mode === 'halfCeil' && !isNegative) || (mode === 'halfFloor' && isNegative);
}

/** Rounds to `count` digits. */
function rounded({ isNegative, digits, exponent }, count, mode) {
  const padded = count < 0 ? '0'.repeat(-count) + digits : digits;
  const [kept, rest] = [padded.slice(0, Math.max(count, 0)), padded.slice(Math.max(count, 0))];
  if (!isUp(mode, isNegative, kept, rest)) return { isNegative, digits: kept.replace(/0+$/, ''), exponent };
  const next = String(BigInt(kept || 0) + 1n).padStart(kept.length, '0');
  const grown = count < 0 ? exponent - count : exponent;
  return { isNegative, digits: next.replace(/0+$/, ''), exponent: grown + next.length - kept.length };
}

/** Which digits are shown: at least and at most so many of the fraction, or of all. */
function precision(options, style, currency, notation) {
  const [minSignificant, maxSignificant] = [integer(options, 'minimumSignificantDigits', 1, 21), integer(options, 'maximumSignificantDigits', 1, 21)];
  if (minSignificant !== undefined || maxSignificant !== undefined) {
    const [least, most] = [minSignificant ?? 1, maxSignificant ?? 21];
    if (least > most) throw new RangeError('maximumSignificantDigits value is out of range.');
    return { minimumSignificantDigits: least, maximumSignificantDigits: most };
  }
  const [givenLeast, givenMost] = [integer(options, 'minimumFractionDigits', 0, 100), integer(options, 'maximumFractionDigits', 0, 100)];
  if (notation === 'compact' && givenLeast === undefined && givenMost === undefined) return { isCompact: true };
  const usual = style === 'currency' && notation === 'standard' ? digitsOf(currency) : 0;
  const [usualLeast, usualMost] = [usual, style === 'decimal' && notation === 'standard' ? 3 : usual];
  const least = givenLeast ?? Math.min(usualLeast, givenMost ?? usualLeast);
  const most = givenMost ?? Math.max(usualMost, least);
  if (least > most) throw new RangeError('maximumFractionDigits value is out of range.');
  return { minimumFractionDigits: least, maximumFractionDigits: most };
}

function resolve(locales, options) {
  const style = option(options, 'style', ['decimal', 'percent', 'currency'], 'decimal');
  const notation = option(options, 'notation', ['standard', 'compact'], 'standard');
  const currency = options.currency === undefined ? undefined : String(options.currency).toUpperCase();
  if (currency !== undefined && !/^[A-Z]{3}$/.test(currency)) throw new RangeError(`Invalid currency code : ${options.currency}`);
  if (style === 'currency' && currency === undefined) throw new TypeError('Currency code is required with currency style.');
  const ofCurrency = style === 'currency' && {
    currency,
    currencyDisplay: option(options, 'currencyDisplay', ['code', 'symbol', 'narrowSymbol', 'name'], 'symbol'),
    currencySign: option(options, 'currencySign', ['standard', 'accounting'], 'standard'),
  };
  const grouping = options.useGrouping ?? (notation === 'compact' ? 'min2' : 'auto');
  return {
    locale: locale(locales),
    numberingSystem: 'latn',
    style,
    ...ofCurrency,
    minimumIntegerDigits: integer(options, 'minimumIntegerDigits', 1, 21) ?? 1,
    ...precision(options, style, currency, notation),
    useGrouping: grouping === true || grouping === 'true' ? 'always' : grouping === 'false' ? false : grouping,
    notation,
    ...(notation === 'compact' && { compactDisplay: option(options, 'compactDisplay', ['short', 'long'], 'short') }),
    signDisplay: option(options, 'signDisplay', ['auto', 'never', 'always', 'exceptZero', 'negative'], 'auto'),
    roundingMode: option(options, 'roundingMode', MODES, 'halfExpand'),
    roundingIncrement: 1,
    trailingZeroDisplay: option(options, 'trailingZeroDisplay', ['auto', 'stripIfInteger'], 'auto'),
    roundingPriority: 'auto',
  };
}

/** Rounds as the options say. */
function round(value, it) {
  const count = it.maximumSignificantDigits ?? value.exponent + (it.isCompact ? (value.exponent < 2 ? 2 - value.exponent : 0) : it.maximumFractionDigits);
  return rounded(value, count, it.roundingMode);
}

/** Returns the rounded value and its power of 1000. */
function scaled(value, it) {
  if (it.notation !== 'compact') return [round(value, it), 0];
  const power = ({ exponent }) => Math.min(Math.max(Math.floor((exponent - 1) / 3), 0), 4);
  const at = (thousands) => round({ ...value, exponent: value.exponent - 3 * thousands }, it);
  const first = power(value);
  // 999,999 is 1M.
  const next = Math.min(first + (at(first).exponent > 3 ? 1 : 0), 4);
  return [at(next), next];
}

/** Returns the digits before and after the point. */
function sides({ digits, exponent }, it) {
  const whole = exponent > 0 ? digits.slice(0, exponent).padEnd(exponent, '0') : '0';
  const part = digits ? '0'.repeat(Math.max(-exponent, 0)) + digits.slice(Math.max(exponent, 0)) : '';
  const significant = it.minimumSignificantDigits - (digits ? exponent : 1);
  const filled = part.padEnd(Math.max(it.minimumFractionDigits ?? (significant || 0), 0), '0');
  const fraction = it.trailingZeroDisplay === 'stripIfInteger' && !/[1-9]/.test(filled) ? '' : filled;
  return [whole.padStart(it.minimumIntegerDigits, '0'), fraction];
}

function numeral(value, it) {
  if (value.special) return [[value.special === '∞' ? 'infinity' : 'nan', value.special]];
  const [whole, fraction] = sides(value, it);
  const isGrouped = it.useGrouping && whole.length > (it.useGrouping === 'min2' ? 4 : 3);
  const groups = isGrouped ? whole.replace(/\B(?=(\d{3})+$)/g, ',').split(',') : [whole];
  const integers = groups.flatMap((group, at) => (at ? [['group', ','], ['integer', group]] : [['integer', group]]));
  return fraction ? [...integers, ['decimal', '.'], ['fraction', fraction]] : integers;
}

function sign({ isNegative, digits, special }, display) {
  const isZero = digits === '' || special === 'NaN';
  if (display === 'never' || (isZero && (display === 'exceptZero' || (isNegative && display === 'negative')))) return '';
  if (isNegative) return '-';
  return display === 'always' || display === 'exceptZero' ? '+' : '';
}

/** Puts a number with its unit in the order of English. */
function withCurrency(number, isOne, it) {
  const { currency, currencyDisplay } = it;
  if (currencyDisplay === 'name') {
    const name = NAMES[currency] ?? currency;
    const plural = name === currency ? name : (PLURALS[name] ?? `${name}s`);
    return [...number, ['literal', ' '], ['currency', isOne ? name : plural]];
  }
  const symbol = currencyDisplay === 'code' ? currency : ((currencyDisplay === 'narrowSymbol' && NARROW[currency]) || SYMBOLS[currency] || currency);
  const isApart = /[A-Z]$/i.test(symbol) && number[0][0] === 'integer';
  return [['currency', symbol], ['literal', isApart ? '\u00a0' : ''], ...number];
}

function parts(value, it) {
  const exact = decimal(value);
  const isPercent = it.style === 'percent';
  const shifted = isPercent && exact.digits ? { ...exact, exponent: exact.exponent + 2 } : exact;
  const [shown, thousands] = exact.special ? [exact, 0] : scaled(shifted, it);
  const suffix = COMPACT[thousands][it.compactDisplay === 'long' ? 1 : 0].trim();
  const space = it.compactDisplay === 'long' && suffix ? ' ' : '';
  const number = [...numeral(shown, it), ['literal', space], ['compact', suffix]];
  const isOne = shown.digits === '1' && shown.exponent === 1 && !it.minimumFractionDigits;
  const unit = it.style === 'currency' ? withCurrency(number, isOne, it) : isPercent ? [...number, ['percentSign', '%']] : number;
  const signed = sign(shown, it.signDisplay);
  if (signed === '-' && it.currencySign === 'accounting') return joined([['literal', '('], ...unit, ['literal', ')']]);
  return joined([[signed === '-' ? 'minusSign' : 'plusSign', signed], ...unit]);
}

export class NumberFormat {
  #it;
  #format;

  constructor(locales, options = {}) {
    this.#it = resolve(locales, Object(options));
  }

  static supportedLocalesOf = supportedLocalesOf;

  get format() {
    return (this.#format ??= (value) => text(this.formatToParts(value)));
  }

  formatToParts(value) {
    return parts(value, this.#it);
  }

  resolvedOptions() {
    const { isCompact, ...shown } = this.#it;
    return isCompact ? { ...shown, minimumFractionDigits: 0, maximumFractionDigits: 0 } : shown;
  }

  get [Symbol.toStringTag]() {
    return 'Intl.NumberFormat';
  }
}

const ORDINALS = { 1: 'one', 2: 'two', 3: 'few' };

export class PluralRules {
  #isOrdinal;
  #numbers;
  #locale;

  constructor(locales, options = {}) {
    this.#locale = locale(locales);
    this.#isOrdinal = option(options, 'type', ['cardinal', 'ordinal'], 'cardinal') === 'ordinal';
    this.#numbers = new NumberFormat('en', { ...options, style: 'decimal', useGrouping: false });
  }

  static supportedLocalesOf = supportedLocalesOf;

  select(value) {
    const shown = this.#numbers.format(value).replace('-', '');
    if (!this.#isOrdinal) return shown === '1' ? 'one' : 'other';
    const teens = /1[123]$/.test(shown) || shown.includes('.');
    return (!teens && ORDINALS[shown.at(-1)]) || 'other';
  }

  resolvedOptions() {
    return { locale: this.#locale, type: this.#isOrdinal ? 'ordinal' : 'cardinal', pluralCategories: this.#isOrdinal ? ['few', 'one', 'two', 'other'] : ['one', 'other'] };
  }
}
