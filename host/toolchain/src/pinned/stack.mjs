// A stack for QuickJS that is as large as the calls for which the cell has room: the builder gives it 1 MiB.

/** The pages of memory of the stack: it must not end before the stack of the cell. */
const STACK_PAGES = 32;
const PAGE = 65_536;

/** Returns a component whose stack is new memory at the end of that which it begins with. The first module of the first component
    in it declares the memory and, as its first global, where the stack begins. */
export function withLargeStack(component) {
  let pages;
  return withSection(Buffer.from(component), COMPONENT, (inner) =>
    withSection(inner, MODULE, (module) => {
      const memory = withSection(module, MEMORY, (content) => {
        // One memory, without a limit.
        if (content[0] !== 1 || content[1] !== 0) throw new Error('the memory is not as the builder makes it');
        const [before, end] = number(content, 2);
        pages = before + STACK_PAGES;
        return Buffer.concat([content.subarray(0, 2), Buffer.from(unsigned(pages)), content.subarray(end)]);
      });
      return withSection(memory, GLOBAL, (content) => {
        const [, at] = number(content, 0);
        // A variable of 32 bits that begins with a constant.
        const isExpected = content.readUIntBE(at, 3) === 0x7f0141 && module.includes('__stack_pointer');
        if (!isExpected) throw new Error('the stack is not as the builder makes it');
        const [, end] = number(content, at + 3);
        return Buffer.concat([content.subarray(0, at + 3), Buffer.from(signed(pages * PAGE)), content.subarray(end)]);
      });
    }),
  );
}

const [MODULE, COMPONENT, MEMORY, GLOBAL] = [1, 4, 5, 6];

/** Changes the content of the first section of a kind in a module or component. */
function withSection(wasm, kind, change) {
  for (let at = 8; at < wasm.length; ) {
    const [size, from] = number(wasm, at + 1);
    if (wasm[at] === kind) {
      const content = change(wasm.subarray(from, from + size));
      const head = Buffer.from([kind, ...unsigned(content.length)]);
      return Buffer.concat([wasm.subarray(0, at), head, content, wasm.subarray(from + size)]);
    }
    at = from + size;
  }
  throw new Error(`the component has no section ${kind}`);
}

/** Reads an unsigned number in LEB128, and returns it with where it ends. */
function number(bytes, from) {
  let [value, at] = [0, from];
  do value += (bytes[at] & 0x7f) * 2 ** (7 * (at - from));
  while (bytes[at++] & 0x80);
  return [value, at];
}

const unsigned = (value) => (value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...unsigned(value >>> 7)]);

const signed = (value) => (value < 0x40 ? [value] : [(value & 0x7f) | 0x80, ...signed(value >>> 7)]);
