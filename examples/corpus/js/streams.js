// Lines of a stream of bytes whose pieces end anywhere, also within a character.

import { handler } from 'host-jobs';

async function* lines(stream) {
  let rest = '';
  for await (const text of stream.pipeThrough(new TextDecoderStream())) {
    const [...parts] = (rest + text).split('\n');
    rest = parts.pop();
    yield* parts;
  }
  if (rest) yield rest;
}

handler('streams', {}, async (ctx, { text, size }) => {
  const bytes = new TextEncoder().encode(text);
  let at = 0;
  const stream = new ReadableStream({
    pull(controller) {
      if (at >= bytes.length) return controller.close();
      controller.enqueue(bytes.slice(at, (at += size)));
    },
  });
  const found = [];
  for await (const line of lines(stream)) found.push(line);
  return found;
});
