// Jobs of graphile-worker on a server of PostgreSQL, with the settings that its documents advise for many short jobs.
//
// node graphile_worker.mjs FOLDER_OF_THE_SOCKET IN_FLIGHT BATCH SECONDS
import pg from "pg";
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import { Load } from "./in_flight.mjs";

const [host, ...shape] = process.argv.slice(2);
const load = new Load(...shape.map(Number));
const logger = new Logger(() => (level, message) => {
  if (level === "error") console.error(message);
});
const pool = new pg.Pool({ host, user: "postgres", database: "postgres", max: 40 });
pool.on("error", () => {});
pool.on("connect", (client) => client.on("error", () => {}));
const preset = {
  worker: { localQueue: { size: load.inFlight }, completeJobBatchDelay: 0, failJobBatchDelay: 0 },
};
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
runner.events.on("job:complete", ({ job }) => load.end(job.payload));

await load.run((jobs) =>
  load.batch === 1
    ? utils.addJob("noop", jobs[0])
    : utils.addJobs(jobs.map((payload) => ({ identifier: "noop", payload }))),
);
await runner.stop();
await utils.release();
await pool.end();
