// Keeps no-op jobs of a queue in flight, like the load of our own host: each counts from before the request that adds it
// until its end is known.

// The compiler of Node.js takes about this long to optimize what runs often; our host is compiled already.
const WARM_UP_SECONDS_MIN = 2;

export class Load {
  #waiting = new Map();
  #ended = [];
  #queued = [];
  #next = 0;
  #free;

  constructor(inFlight, batch, seconds) {
    Object.assign(this, { inFlight, batch, seconds });
    this.#free = inFlight;
  }

  // The program calls this when it learns that a job has ended.
  end({ n }) {
    this.#ended.push(performance.now());
    this.#waiting.get(n)();
    this.#waiting.delete(n);
    this.#free++;
    this.#admit();
  }

  // Has `add` add arrays of params, and prints how many jobs end in a second.
  async run(add) {
    const warmUp = Math.max(this.seconds / 4, WARM_UP_SECONDS_MIN);
    const from = performance.now() + warmUp * 1000;
    const until = from + this.seconds * 1000;
    const connections = this.batch === 1 ? this.inFlight : Math.ceil(this.inFlight / this.batch) + 1;
    await Promise.all(Array.from({ length: connections }, () => this.#keep(add, until)));
    const within = this.#ended.filter((at) => at >= from && at < until).length;
    console.log(JSON.stringify({ jobs_per_second: within / this.seconds }));
  }

  // An array begins when that many jobs have ended, without waiting for the rest of another.
  async #keep(add, until) {
    const arrays = [];
    while (performance.now() < until) {
      await this.#room();
      const jobs = Array.from({ length: this.batch }, () => ({ n: this.#next++ }));
      const done = Promise.all(jobs.map(({ n }) => new Promise((end) => this.#waiting.set(n, end))));
      await add(jobs);
      if (this.batch === 1) await done;
      else arrays.push(done);
    }
    await Promise.all(arrays);
  }

  #room() {
    return new Promise((admit) => {
      this.#queued.push(admit);
      this.#admit();
    });
  }

  #admit() {
    while (this.#queued.length > 0 && this.#free >= this.batch) {
      this.#free -= this.batch;
      this.#queued.shift()();
    }
  }
}
