// Time zones: offsets from UTC, and the abbreviations in use. The rules are those of the time zone database, packed as for
// moment-timezone: numbers have the base 60, and times are minutes since the time before.

/** A line for each zone, and for each other name of one: the name, a bar and the rules, or the name that has them. */
let lines = '\n';
const unpacked = new Map();
const UTC = { names: ['UTC'], offsets: [0], ends: [Infinity] };

/** Sets the rules. */
export function setRules(text) {
  lines = `\n${text}\n`;
}

/** Returns the name of a zone as the database writes it, and what follows it. A search of one text is quicker than a table to make. */
function find(name) {
  let at = lines.indexOf(`\n${name}|`);
  if (at < 0 && /^[\w+/-]+$/.test(name)) at = lines.search(new RegExp(`\\n${name.replaceAll('+', '\\+')}\\|`, 'i'));
  if (at < 0) throw new RangeError(`Invalid time zone specified: ${name}`);
  const bar = lines.indexOf('|', at);
  return [lines.slice(at + 1, bar), lines.slice(bar + 1, lines.indexOf('\n', bar))];
}

const digit = (character) => {
  const code = character.charCodeAt(0);
  return code > 96 ? code - 87 : code > 64 ? code - 29 : code - 48;
};

function number(text) {
  const [whole, part = ''] = text.replace('-', '').split('.');
  let value = [...whole].reduce((sum, character) => sum * 60 + digit(character), 0);
  [...part].forEach((character, at) => (value += digit(character) / 60 ** (at + 1)));
  return text.startsWith('-') ? -value : value;
}

function unpack(rules) {
  const [names, offsets, indices, times] = rules.split('|');
  const each = [...indices].map(digit);
  const all = [names.split(' '), offsets.split(' ').map((text) => -number(text))];
  let minutes = 0;
  const ends = times ? times.split(' ').map((text) => (minutes += number(text)) * 60_000) : [];
  return { names: each.map((index) => all[0][index]), offsets: each.map((index) => all[1][index]), ends: [...ends, Infinity] };
}

/** Returns a zone by its name, as it is written in the database, or by its offset from UTC. */
export function zone(name) {
  if (name === undefined) return { timeZone: 'UTC', zone: UTC };
  const key = String(name).toLowerCase();
  if (/^(etc\/)?(utc|gmt|uct|zulu|universal|greenwich)$/.test(key)) return { timeZone: 'UTC', zone: UTC };
  const [, sign, hours, minutes = '0'] = /^([+-])([01]\d|2[0-3])(?::?([0-5]\d))?$/.exec(key) ?? [];
  if (sign) {
    const value = Number(`${sign}1`) * (Number(hours) * 60 + Number(minutes));
    return { timeZone: `${sign}${hours}:${minutes.padStart(2, '0')}`, zone: { names: [''], offsets: [value], ends: [Infinity] } };
  }
  const [own, first] = find(String(name));
  let rules = first;
  while (!rules.includes('|')) [, rules] = find(rules);
  if (!unpacked.has(rules)) unpacked.set(rules, unpack(rules));
  return { timeZone: own, zone: unpacked.get(rules) };
}

/** The rules have times until this year; after it, those of a year with the same days. */
const LAST_YEAR = 2037;
const AFTER = Date.UTC(LAST_YEAR + 1, 0);
const isLeap = (year) => (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0;

function known(ms, ends) {
  const changesToTheEnd = ends.length > 2 && ends.at(-2) > Date.UTC(LAST_YEAR, 0);
  if (ms < AFTER || !changesToTheEnd) return ms;
  const [year, weekday] = [new Date(ms).getUTCFullYear(), (at) => new Date(Date.UTC(at, 0)).getUTCDay()];
  let same = LAST_YEAR;
  while (isLeap(same) !== isLeap(year) || weekday(same) !== weekday(year)) same -= 1;
  return ms - Date.UTC(year, 0) + Date.UTC(same, 0);
}

function index({ ends }, ms) {
  const at = known(ms, ends);
  let [low, high] = [0, ends.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (at < ends[middle]) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Returns how many minutes a zone is ahead of UTC. */
export const offset = (rules, ms) => rules.offsets[index(rules, ms)];

export const abbreviation = (rules, ms) => rules.names[index(rules, ms)];
