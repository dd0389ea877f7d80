// The author's lines for those of the bundle. `host build` adds the global `sourceMapOfHandlers` to the bundle: the names of
// the sources, and for each line of the bundle where its parts begin and which source and line they are from, as text.

/** Returns the frames of a stack that are the author's, with the author's lines. */
export function located(stack) {
  const map = globalThis.sourceMapOfHandlers;
  if (!map) return stack;
  const lines = map.lines.split(';');
  const frames = stack.split('\n').map((frame) => {
    const [, before, line, column] = /^(.*?)[^\s(@:]*:(\d+)(?::(\d+))?\)?$/.exec(frame) ?? [];
    const parts = partsOf(lines[line - 1]);
    const part = parts.findLast(([from]) => from < Number(column ?? 1)) ?? parts[0];
    if (!part) return undefined;
    const name = before.replace(/^\s*at\s+/, '').replace(/[\s(@]+$/, '');
    return `    at ${name || '<anonymous>'} (${map.sources[part[1]]}:${part[2]})`;
  });
  return frames.filter(Boolean).join('\n');
}

const partsOf = (text) =>
  (text || undefined)?.split(',').map((part) => part.split(' ').map((digits) => Number.parseInt(digits, 36))) ?? [];
