// Which locale formats: English as in the United States. Others fall back to it, as the specification says, and a warning names them.

const TAG = /^[a-z]{2,3}(-[a-z]{4})?(-([a-z]{2}|\d{3}))?(-[a-z\d]{5,8}|-\d[a-z\d]{3})*(-[a-z\d](-[a-z\d]{2,8})+)*$/i;
const SUPPORTED = /^en(-US)?$/i;
const missed = new Set();

const tags = (locales) => (locales === undefined ? [] : typeof locales === 'string' ? [locales] : Array.from(locales, String));

/** Returns those of the locales that are supported. */
export const supportedLocalesOf = (locales) => checked(locales).filter((tag) => SUPPORTED.test(tag));

function checked(locales) {
  const all = tags(locales);
  const wrong = all.find((tag) => !TAG.test(tag));
  if (wrong !== undefined) throw new RangeError(`Incorrect locale information provided: ${wrong}`);
  return all;
}

/** Returns the locale that formats what was to be formatted in one of `locales`. */
export function locale(locales) {
  const all = checked(locales);
  const found = all.find((tag) => SUPPORTED.test(tag));
  if (found) return found.length === 2 ? 'en' : 'en-US';
  if (all.length > 0 && !missed.has(all[0])) {
    missed.add(all[0]);
    console.warn(`Intl has no locale ${all[0]} in a component with QuickJS: it formats as in en-US`);
  }
  return 'en-US';
}

/** Returns an option if it is one of `values`. */
export function option(options, name, values, otherwise) {
  const value = options[name];
  if (value === undefined) return otherwise;
  if (!values.includes(String(value))) throw new RangeError(`Value ${value} out of range for Intl option ${name}: there are ${values.join(', ')}`);
  return String(value);
}

/** Returns an option that is an integer from `least` to `most`. */
export function integer(options, name, least, most) {
  if (options[name] === undefined) return undefined;
  const value = Number(options[name]);
  if (!(value >= least && value <= most)) throw new RangeError(`${name} value is out of range.`);
  return Math.floor(value);
}

export const text = (parts) => parts.map(({ value }) => value).join('');

/** Makes parts of pairs of a type and a value, without empty ones; literals that follow each other are one. */
export function joined(pairs) {
  const parts = [];
  for (const [type, value] of pairs) {
    const last = parts.at(-1);
    if (value === '') continue;
    if (type === 'literal' && last?.type === 'literal') last.value += value;
    else parts.push({ type, value });
  }
  return parts;
}
