// Intl.DateTimeFormat in English, with the Gregorian calendar.

import { integer, joined, locale, option, supportedLocalesOf, text } from './locale.js';
import { abbreviation, offset, zone } from './zones.js';

const MONTHS = ['January', 'February', 'March', 'April', 'May', 'June', 'July', 'August', 'September', 'October', 'November', 'December'];
const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];
const ERAS = { long: ['Before Christ', 'Anno Domini'], short: ['BC', 'AD'], narrow: ['B', 'A'] };
const NAMES = {
  AKST: 'Alaska Standard Time', AKDT: 'Alaska Daylight Time', AST: 'Atlantic Standard Time', ADT: 'Atlantic Daylight Time', BST: 'British Summer Time',
  CET: 'Central European Standard Time', CEST: 'Central European Summer Time', CST: 'Central Standard Time', CDT: 'Central Daylight Time',
  EET: 'Eastern European Standard Time', EEST: 'Eastern European Summer Time', EST: 'Eastern Standard Time', EDT: 'Eastern Daylight Time',
  GMT: 'Greenwich Mean Time', JST: 'Japan Standard Time', MST: 'Mountain Standard Time', MDT: 'Mountain Daylight Time',
  PST: 'Pacific Standard Time', PDT: 'Pacific Daylight Time', UTC: 'Coordinated Universal Time',
  WET: 'Western European Standard Time', WEST: 'Western European Summer Time',
};
/** The abbreviations that are usual in the United States, in zones that have them. */
const SHORT = /^(AK|[ACEMP])[SD]T$/;

const TEXTS = ['narrow', 'short', 'long'];
const NUMBERS = ['2-digit', 'numeric'];
const ALL = {
  weekday: TEXTS,
  era: TEXTS,
  year: NUMBERS,
  month: [...NUMBERS, ...TEXTS],
  day: NUMBERS,
  hour: NUMBERS,
  minute: NUMBERS,
  second: NUMBERS,
};
const DATE = ['weekday', 'year', 'month', 'day'];
const TIME = ['hour', 'minute', 'second', 'fractionalSecondDigits'];
const STYLES = ['full', 'long', 'medium', 'short'];

const date = { year: 'numeric', month: 'long', day: 'numeric' };
const time = { hour: 'numeric', minute: '2-digit' };
const DATE_STYLES = {
  full: { weekday: 'long', ...date },
  long: date,
  medium: { ...date, month: 'short' },
  short: { year: '2-digit', month: 'numeric', day: 'numeric' },
};
const TIME_STYLES = {
  full: { ...time, second: '2-digit', timeZoneName: 'long' },
  long: { ...time, second: '2-digit', timeZoneName: 'short' },
  medium: { ...time, second: '2-digit' },
  short: time,
};

/** Returns which fields are shown, and how. */
function fields(options, [required, usual]) {
  const chosen = {};
  for (const name of Object.keys(ALL)) chosen[name] = option(options, name, ALL[name]);
  chosen.fractionalSecondDigits = integer(options, 'fractionalSecondDigits', 1, 3);
  chosen.timeZoneName = option(options, 'timeZoneName', ['short', 'long', 'shortOffset', 'longOffset']);
  if (options.dayPeriod !== undefined) throw new RangeError('Intl.DateTimeFormat has no dayPeriod in a component with QuickJS');
  const [dateStyle, timeStyle] = [option(options, 'dateStyle', STYLES), option(options, 'timeStyle', STYLES)];
  if (dateStyle || timeStyle) {
    const other = Object.keys(chosen).find((name) => chosen[name] !== undefined);
    if (other) throw new TypeError(`Can't set option ${other} when ${dateStyle ? 'dateStyle' : 'timeStyle'} is used`);
    if ((dateStyle && required === 'time') || (timeStyle && required === 'date')) throw new TypeError(`Invalid option : ${dateStyle ? 'dateStyle' : 'timeStyle'}`);
    return { ...DATE_STYLES[dateStyle], ...TIME_STYLES[timeStyle], styles: { dateStyle, timeStyle } };
  }
  const needed = [...(required === 'time' ? [] : DATE), ...(required === 'date' ? [] : TIME)];
  if (needed.every((name) => chosen[name] === undefined)) {
    if (usual !== 'time') Object.assign(chosen, { year: 'numeric', month: 'numeric', day: 'numeric' });
    if (usual !== 'date') Object.assign(chosen, { hour: 'numeric', minute: '2-digit', second: '2-digit' });
  }
  return chosen;
}

const padded = (value, style) => (style === '2-digit' ? String(value).padStart(2, '0').slice(-2) : String(value));
const named = (name, style) => (style === 'long' ? name : name.slice(0, style === 'narrow' ? 1 : 3));

function dateParts(at, it) {
  const isBefore = at.getUTCFullYear() < 1;
  const full = isBefore ? 1 - at.getUTCFullYear() : at.getUTCFullYear();
  const year = it.year && ['year', padded(full, it.year)];
  const day = it.day && ['day', padded(at.getUTCDate(), it.day)];
  const month = it.month && ['month', TEXTS.includes(it.month) ? named(MONTHS[at.getUTCMonth()], it.month) : padded(at.getUTCMonth() + 1, it.month)];
  const weekday = it.weekday && ['weekday', named(DAYS[at.getUTCDay()], it.weekday)];
  const literal = (value) => ['literal', value];
  let parts;
  if (!month && year && day) parts = [year, literal(' (day: '), day, literal(')')];
  else if (TEXTS.includes(it.month)) parts = [month, ...(day ? [literal(' '), day] : []), ...(year ? [literal(day ? ', ' : ' '), year] : [])];
  else parts = [month, day, year].filter(Boolean).flatMap((part, at) => (at ? [literal('/'), part] : [part]));
  if (it.era) parts.push(...(parts.length ? [literal(' ')] : []), ['era', ERAS[it.era][isBefore ? 0 : 1]]);
  if (!weekday) return parts;
  if (parts.length === 0) return [weekday];
  return month && day ? [weekday, literal(', '), ...parts] : [...parts, literal(' '), weekday];
}

function timeParts(at, it) {
  const hours = at.getUTCHours();
  const hour = { h11: hours % 12, h12: hours % 12 || 12, h23: hours, h24: hours || 24 }[it.hourCycle];
  const is24 = it.hourCycle === 'h23' || it.hourCycle === 'h24';
  const rest = [];
  if (it.hour) rest.push(['hour', padded(hour, is24 ? '2-digit' : it.hour)]);
  if (it.minute) rest.push(['minute', padded(at.getUTCMinutes(), it.hour || it.second ? '2-digit' : 'numeric')]);
  if (it.second) rest.push(['second', padded(at.getUTCSeconds(), it.minute ? '2-digit' : 'numeric')]);
  const parts = rest.flatMap((part, index) => (index ? [['literal', ':'], part] : [part]));
  const digits = it.fractionalSecondDigits;
  if (digits) parts.push(['literal', it.second ? '.' : ''], ['fractionalSecond', String(at.getUTCMilliseconds()).padStart(3, '0').slice(0, digits)]);
  if (it.hour && !is24) parts.push(['literal', ' '], ['dayPeriod', hours < 12 ? 'AM' : 'PM']);
  return parts;
}
function offsetName(minutes, isLong) {
  const [hours, rest] = [Math.trunc(Math.abs(minutes) / 60), Math.trunc(Math.abs(minutes) % 60)];
  const sign = minutes < 0 ? '-' : '+';
  if (isLong) return `GMT${sign}${padded(hours, '2-digit')}:${padded(rest, '2-digit')}`;
  return `GMT${sign}${hours}${rest ? `:${padded(rest, '2-digit')}` : ''}`;
}

function zoneName(it, ms) {
  const minutes = offset(it.zone, ms);
  const short = it.timeZone === 'UTC' ? 'UTC' : abbreviation(it.zone, ms);
  if (it.timeZoneName === 'short' && (short === 'UTC' || (SHORT.test(short) && /^(America|Canada|US|Pacific\/Honolulu)/.test(it.timeZone)))) return short;
  if (it.timeZoneName === 'long' && NAMES[short] && (!SHORT.test(short) || /^(America|Canada|US)/.test(it.timeZone))) return NAMES[short];
  if (minutes === 0 && !it.timeZoneName.endsWith('Offset')) return 'GMT';
  return offsetName(minutes, it.timeZoneName.startsWith('long'));
}

function parts(it, ms) {
  const at = new Date(ms + offset(it.zone, ms) * 60_000);
  const [days, times] = [dateParts(at, it), timeParts(at, it)];
  const onlyWeekday = it.weekday && !it.year && !it.month && !it.day && !it.era;
  const between = it.month === 'long' ? ' at ' : onlyWeekday ? ' ' : ', ';
  const zoned = it.timeZoneName && ['timeZoneName', zoneName(it, ms)];
  return joined([
    ...days,
    ['literal', days.length && times.length ? between : ''],
    ...times,
    ...(zoned ? [['literal', times.length ? ' ' : ', '], zoned] : []),
  ]);
}

/** Makes what formats dates; `required` and `usual` say which fields, `date`, `time` or `any`, are needed and are shown otherwise. */
export function formatter(locales, options, required, usual) {
  const given = options === undefined ? {} : Object(options);
  const chosen = fields(given, [required, usual]);
  const cycle = option(given, 'hourCycle', ['h11', 'h12', 'h23', 'h24'], 'h12');
  const hourCycle = given.hour12 === undefined ? cycle : given.hour12 ? 'h12' : 'h23';
  const { timeZone, zone: rules } = zone(given.timeZone);
  return { locale: locale(locales), calendar: 'gregory', numberingSystem: 'latn', timeZone, zone: rules, ...chosen, hourCycle };
}

export function format(it, value) {
  return text(formatToParts(it, value));
}

function formatToParts(it, value) {
  const ms = value === undefined ? Date.now() : Number(value);
  if (!(Math.abs(ms) <= 8.64e15)) throw new RangeError('Invalid time value');
  return parts(it, Math.trunc(ms));
}

export class DateTimeFormat {
  #it;
  #format;

  constructor(locales, options) {
    this.#it = formatter(locales, options, 'any', 'date');
  }

  static supportedLocalesOf = supportedLocalesOf;

  get format() {
    return (this.#format ??= (value) => format(this.#it, value));
  }

  formatToParts(value) {
    return formatToParts(this.#it, value);
  }

  resolvedOptions() {
    const { zone: _rules, styles, hourCycle, ...shown } = this.#it;
    const hours = shown.hour && { hourCycle, hour12: hourCycle === 'h11' || hourCycle === 'h12' };
    const all = { ...shown, ...hours };
    if (styles) for (const name of [...Object.keys(ALL), 'timeZoneName']) delete all[name];
    return Object.fromEntries(Object.entries({ ...all, ...styles }).filter(([, value]) => value !== undefined));
  }

  get [Symbol.toStringTag]() {
    return 'Intl.DateTimeFormat';
  }
}
