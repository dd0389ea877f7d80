// `console`, which writes to the job's log.

/** Where it writes, once there is a host. */
export const write = { to: { write() {} } };

const line =
  (level) =>
  (...given) =>
    write.to.write(level, given.map(shown).join(' '), []);

function shown(value) {
  if (typeof value === 'string') return value;
  if (value instanceof Error) return `${value.name}: ${value.message}`;
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return String(value);
  }
}

export const console = {
  debug: line('debug'),
  error: line('error'),
  info: line('info'),
  log: line('info'),
  trace: line('trace'),
  warn: line('warn'),
};
