// Keeps no-op jobs of graphile-worker in flight on a server of PostgreSQL, from before the request that adds
// them until their end is in the database, and prints how many end in a second. With the settings that its documents
// advise for many short jobs.
//
// node load.mjs FOLDER_OF_THE_SOCKET IN_FLIGHT BATCH SECONDS
import pg from "pg";
import { Logger, makeWorkerUtils, run } from "graphile-worker";

const [host, inFlight, batch, seconds] = process.argv.slice(2).map((it, n) => (n ? Number(it) : it));
const logger = new Logger(() => (level, message) => {
  if (level === "error") console.error(message);
});
const pool = new pg.Pool({ host, user: "postgres", database: "postgres", max: 40 });
pool.on("error", () => {});
pool.on("connect", (client) => client.on("error", () => {}));
const preset = {
  worker: { localQueue: { size: inFlight }, completeJobBatchDelay: 0, failJobBatchDelay: 0 },
};
const waiting = new Map();
const ended = [];
const utils = await makeWorkerUtils({ pgPool: pool, logger });
await utils.migrate();
const runner = await run({
  pgPool: pool,
  preset,
  logger,
  concurrency: 24,
  pollInterval: 100,
  noHandleSignals: true,
  taskList: { noop: async () => {} },
});
// By then the end of a job is in the database, as when our host reports it.
runner.events.on("job:complete", ({ job }) => {
  const { n } = job.payload;
  ended.push(performance.now());
  waiting.get(n)();
  waiting.delete(n);
  release();
});

let next = 0;
let free = inFlight;
const queued = [];
function admit() {
  while (queued.length > 0 && free >= batch) {
    free -= batch;
    queued.shift()();
  }
}
function release() {
  free++;
  admit();
}
function acquire() {
  return new Promise((resolve) => {
    queued.push(resolve);
    admit();
  });
}
const from = performance.now() + (seconds * 1000) / 4;
const until = from + seconds * 1000;

// Like our own load: an array begins when that many jobs have ended, without waiting for the rest of another.
async function one() {
  const arrays = [];
  while (performance.now() < until) {
    await acquire();
    const jobs = Array.from({ length: batch }, () => ({ n: next++ }));
    const done = jobs.map(({ n }) => new Promise((resolve) => waiting.set(n, resolve)));
    if (batch === 1) await utils.addJob("noop", jobs[0]);
    else await utils.addJobs(jobs.map((payload) => ({ identifier: "noop", payload })));
    if (batch === 1) await done[0];
    else arrays.push(Promise.all(done));
  }
  await Promise.all(arrays);
}

const connections = batch === 1 ? inFlight : Math.ceil(inFlight / batch) + 1;
await Promise.all(Array.from({ length: connections }, one));
const within = ended.filter((at) => at >= from && at < until).length;
console.log(JSON.stringify({ jobs_per_second: within / seconds }));
await runner.stop();
await utils.release();
await pool.end();
