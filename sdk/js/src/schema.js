// Whether a value fits a JSON Schema, as far as its types: the host checks the rest before it accepts a job.

/** Returns why a value does not fit, with its path, or `undefined`. */
export function misfit(schema, value, path = '') {
  if (schema === undefined || typeof schema === 'boolean') return undefined;
  const { anyOf, enum: values, const: only, type, properties = {}, required = [], items } = schema;
  if (anyOf && anyOf.every((one) => misfit(one, value, path))) return differs(path, value, 'any of what it may be');
  if (values && !values.includes(value)) return differs(path, value, `one of ${JSON.stringify(values)}`);
  if (only !== undefined && only !== value) return differs(path, value, JSON.stringify(only));
  if (type && ![type].flat().some((name) => isOf(name, value))) return differs(path, value, [type].flat().join(' or '));
  if (Array.isArray(value)) {
    return first(value.map((item, at) => () => misfit(items, item, `${path}[${at}]`)));
  }
  if (!isOf('object', value)) return undefined;
  const missing = required.find((key) => value[key] === undefined);
  if (missing !== undefined) return `${below(path, missing)} is missing`;
  const present = Object.keys(properties).filter((key) => value[key] !== undefined);
  return first(present.map((key) => () => misfit(properties[key], value[key], below(path, key))));
}

function first(checks) {
  for (const check of checks) {
    const found = check();
    if (found) return found;
  }
  return undefined;
}

const below = (path, key) => (path ? `${path}.${key}` : key);

const differs = (path, value, expected) =>
  `${path || 'the whole'} is ${JSON.stringify(value)?.slice(0, 80)}, not ${expected}`;

function isOf(type, value) {
  if (type === 'null') return value === null;
  if (type === 'array') return Array.isArray(value);
  if (type === 'integer') return Number.isInteger(value);
  if (type === 'object') return typeof value === 'object' && value !== null && !Array.isArray(value);
  return typeof value === type;
}
