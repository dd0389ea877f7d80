// Jobs of BullMQ on a server of Redis. As its documents advise for many short jobs, the worker runs many at once, and a job
// is removed when it has completed. The worker runs fewer than are in flight: only while it finds more does it ask for the
// next job with the end of the one before, instead of one by one.
//
// node bullmq.mjs PORT IN_FLIGHT BATCH SECONDS
import { Queue, Worker } from "bullmq";
import { Load } from "./in_flight.mjs";

const [port, ...shape] = process.argv.slice(2);
const load = new Load(...shape.map(Number));
const connection = { host: "127.0.0.1", port: Number(port), maxRetriesPerRequest: null };
const queue = new Queue("bench", { connection });
const settings = { connection, concurrency: 100, removeOnComplete: { count: 0 } };
const worker = new Worker("bench", async () => {}, settings);
worker.on("error", (error) => console.error(error));
// By then Redis has answered that the job has ended.
worker.on("completed", (job) => load.end(job.data));
await worker.waitUntilReady();

await load.run((jobs) =>
  load.batch === 1
    ? queue.add("noop", jobs[0])
    : queue.addBulk(jobs.map((data) => ({ name: "noop", data }))),
);
await worker.close();
await queue.close();
