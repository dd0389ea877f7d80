// Streams, from a package that `host build` brings along.

import { TransformStream } from 'web-streams-polyfill';

export * from 'web-streams-polyfill';

/** Makes a class of a stream that converts each piece, and flushes at its end. */
const converts = (make) =>
  class {
    constructor(...given) {
      const { convert, flush = () => undefined } = make(...given);
      const { readable, writable } = new TransformStream({
        transform: (piece, controller) => put(convert(piece), controller),
        flush: (controller) => put(flush(), controller),
      });
      Object.assign(this, { readable, writable });
    }
  };

function put(piece, controller) {
  if (piece?.length > 0) controller.enqueue(piece);
}

export const TextEncoderStream = converts(() => {
  const encoder = new TextEncoder();
  return { convert: (text) => encoder.encode(text) };
});

export const TextDecoderStream = converts((label, options) => {
  const decoder = new TextDecoder(label, options);
  return { convert: (bytes) => decoder.decode(bytes, { stream: true }), flush: () => decoder.decode() };
});
