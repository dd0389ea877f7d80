// The stream of events, which continues where it was when a connection breaks.

import { Refused, Unreachable } from './errors.js';
import { filled, Pauses } from './transport.js';

// The host says something at least every 15 seconds.
const SILENCE_MS = 45_000;

export const ENDED = ['completed', 'cancelled', 'discarded'];

/** Events as an async iterator. `lastId` is where another stream may continue: `client.events({ after })`. */
export class Events {
  #transport;
  #api;
  #job;
  #path;
  #open;
  #pauses;
  #ended = false;

  constructor(transport, api, { job, queue, after } = {}) {
    this.#transport = transport;
    this.#api = api;
    this.#job = job;
    this.#path = filled('/api/v1/events', [], { job, queue });
    this.lastId = after;
  }

  /** Connects, so that what happens from now on is in the stream, whenever it is read. */
  async connect() {
    this.#open = await this.#transport.patiently(() => this.#connect(), true);
    return this;
  }

  [Symbol.asyncIterator]() {
    return this;
  }

  async next() {
    while (!this.#ended) {
      if (!this.#open) await this.connect();
      let broken;
      try {
        const event = await this.#read(this.#open);
        if (event) return { value: event, done: false };
      } catch (error) {
        if (!(error instanceof Unreachable)) throw error;
        broken = error;
      }
      this.#drop();
      if (this.#ended) break;
      // The stream of a job ends with it. That of a host that stops does so, too.
      if (!broken && this.#job && (await this.#hasEnded(this.#job))) break;
      this.#pauses ??= new Pauses(this.#transport.patienceMs);
      const again = `${this.#transport.server} ends the stream of events again and again`;
      if (!(await this.#pauses.pause())) throw broken ?? new Unreachable(again, true);
    }
    return this.return();
  }

  /** Closes the connection. The stream then ends. */
  async return() {
    this.#ended = true;
    this.#drop();
    return { value: undefined, done: true };
  }

  #drop() {
    this.#open?.abort.abort();
    this.#open = undefined;
  }

  async #connect() {
    const abort = new AbortController();
    const more = this.lastId === undefined ? {} : { 'last-event-id': String(this.lastId) };
    const timer = setTimeout(() => abort.abort(), SILENCE_MS);
    try {
      const answer = await this.#transport.open('GET', this.#path, undefined, abort.signal, more);
      const open = { abort, reader: answer.body.getReader(), decoder: new TextDecoder(), text: '' };
      // The first block says where the stream begins.
      if (this.lastId === undefined) await this.#block(open);
      return open;
    } finally {
      clearTimeout(timer);
    }
  }

  async #hasEnded(id) {
    try {
      return ENDED.includes((await this.#api.jobs.show(id)).state);
    } catch (error) {
      if (error instanceof Refused && error.status === 404) return true;
      throw error;
    }
  }

  /** Reads up to the next event; `undefined` is the end of the stream. */
  async #read(open) {
    for (;;) {
      const block = await this.#block(open);
      if (!block) return undefined;
      this.#pauses = undefined;
      const { event: kind, data, id } = block;
      if (!data || !['change', 'progress', 'gap'].includes(kind)) continue;
      return { kind, data: JSON.parse(data), ...(id !== undefined && { id: Number(id) }) };
    }
  }

  /** Reads lines up to an empty one. Those of the host have one line of data. */
  async #block(open) {
    let end;
    while ((end = open.text.indexOf('\n\n')) < 0) {
      const timer = setTimeout(() => open.abort.abort(), SILENCE_MS);
      try {
        const { value, done } = await open.reader.read();
        if (done) return undefined;
        open.text += open.decoder.decode(value, { stream: true });
      } catch (error) {
        throw this.#transport.noAnswer(error);
      } finally {
        clearTimeout(timer);
      }
    }
    const lines = open.text.slice(0, end).split('\n');
    open.text = open.text.slice(end + 2);
    const block = Object.fromEntries(lines.map((line) => /^(\w*):? ?(.*)$/.exec(line).slice(1)));
    if (block.id !== undefined) this.lastId = Number(block.id);
    return block;
  }
}
