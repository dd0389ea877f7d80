// Does what docs/http.md shows, through restarts and lost answers. Its peer does what it asks for, line by line.

import { Client, JobCancelled, JobFailed, Refused, ResultWithheld, WaitTimeout } from "host-jobs-client";
import type { Event, JobState, NewJob } from "host-jobs-client";

// @ts-ignore: without the types of Node.
import { createInterface } from "node:readline";
// @ts-ignore
import { readFileSync } from "node:fs";
declare const process: { argv: string[]; stdin: unknown; exit(): never };
declare const console: { log(text: string): void };

const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

async function ask(what: string) {
  console.log(what);
  equal((await answers.next()).value, "done");
}

function equal(seen: unknown, expected: unknown) {
  if (JSON.stringify(seen) !== JSON.stringify(expected)) {
    throw new Error(`${JSON.stringify(seen)} is not ${JSON.stringify(expected)}`);
  }
}

async function all<Item, To>(items: AsyncIterable<Item>, to: (item: Item) => To): Promise<To[]> {
  const out = [];
  for await (const item of items) out.push(to(item));
  return out;
}

async function thrown<E>(kind: new (...args: never[]) => E, doing: Promise<unknown>): Promise<E> {
  const error = await doing.then(() => undefined, (error: unknown) => error);
  if (error instanceof kind) return error;
  throw new Error(`expected ${kind.name}`, { cause: error });
}

const client = new Client();
const basics = readFileSync(process.argv[2]!);
equal((await client.deploy("basics", basics)).revision, 1);

// Send a file.
const sent = await client.upload(new TextEncoder().encode("a,1\n"), { contentType: "text/csv" });
equal(`${sent.bytes} ${sent.content_type}`, "4 text/csv");
const reads = await client.enqueue("echo", 1, { files: { rows: sent.id } });
equal((await client.job(reads.id)).files?.rows, sent.id);

// Enqueue and wait.
const params = { a: [1.5, "ä", null] };
equal(await client.enqueueAndWait("echo", params, { timeoutMs: 60_000 }), params);
const options = { queue: "mail", unique: { key: "42", scope: "retained" }, delay_seconds: 3600 } as const;
const mail = await client.enqueue("echo", 1, options);
const again = await client.enqueue("echo", 1, options);
equal([again.id, again.existing], [mail.id, true]);
const [first, second] = await client.enqueueArray([
  { handler: "echo", params: 2 },
  { handler: "noop", depends_on: ["#0"] },
]);
equal((await client.wait(second!.id)).depends_on, [first!.id]);
equal(await all(client.attempts(second!.id), (attempt) => attempt.outcome), ["completed"]);
const logged = await client.enqueue("log", { lines: 2 }, { priority: 0 });
await client.result(logged.id);
equal(await all(client.log(logged.id), (line) => line.message), ["line 1 of 2", "line 2 of 2"]);

// How a job ends.
const failing = client.enqueueAndWait("fail", { message: "broken" }, { max_attempts: 1 });
const state: JobState = (await thrown(JobFailed, failing)).job.state;
equal(state, "discarded");
const late = await thrown(WaitTimeout, client.enqueueAndWait("spin", null, { timeoutMs: 100 }));
await client.cancel(late.job.id, { reason: "enough", graceMs: 0 });
equal((await thrown(JobCancelled, client.result(late.job.id))).job.cancel_reason, "enough");

// Cancel, retry, queues.
equal((await client.cancel(mail.id)).state, "cancelled");
equal(await all(client.jobs({ state: "cancelled", queue: "mail" }), (job) => job.id), [mail.id]);
await client.retry(mail.id);
equal(await client.result<number>(mail.id), 1);
equal((await client.api.jobs.count({ queue: "mail" })).jobs, 1);
equal((await client.api.queues.pause("mail")).paused, true);
equal((await client.api.queues.resume("mail")).paused, false);
equal(await all(client.items(() => client.api.queues.list()), (queue) => queue.name), ["default", "mail"]);

// State.
await client.api.state.set("handler:echo", { value: "17" }, { key: "a/b c" });
equal((await client.api.state.value("handler:echo", { key: "a/b c" })).value, "17");
equal(await all(client.items(() => client.api.state.spaces()), (space) => space.space), ["handler:echo"]);
equal((await client.api.state.keys("handler:echo", { prefix: "a/" })).items.map((it) => it.key), ["a/b c"]);
await client.api.state.remove("handler:echo", { key: "a/b c" });
equal((await client.api.state.spaces()).items, []);

// Deploy with a manifest. New grants are accepted or refused.
const manifest = `[[handlers.echo.jobs]]\nhandlers = ["noop"]\nqueues = ["default"]\n`;
const refusedGrants = await thrown(Refused, client.deploy("basics", basics, { manifest }));
equal(refusedGrants.code, "grants_not_accepted");
equal((await client.deploy("basics", basics, { manifest, acceptGrants: true })).revision, 2);

// Many jobs, and pages of them.
function* many(): Generator<NewJob> {
  for (let count = 0; count < 2500; count += 1) yield { handler: "echo", queue: "many" };
}
const pages: number[] = [];
equal(await client.enqueueMany(many(), (page) => pages.push(page.length)), 2500);
equal(pages, [1000, 1000, 500]);
equal(new Set(await all(client.jobs({ queue: "many" }), (job) => job.id)).size, 2500);

// Lost answers.
await ask("swallow");
equal((await client.enqueue("echo", "once", { queue: "lost" })).existing, true);
await ask("swallow");
const lost = Array<NewJob>(3).fill({ handler: "echo", queue: "lost" });
equal((await client.enqueueArray(lost)).length, 3);
equal((await client.api.jobs.count({ queue: "lost" })).jobs, 4);

// A host that is killed and starts again, in the middle of streams and of a wait.
const hundred = Array<NewJob>(100).fill({ handler: "echo", queue: "stream" });
const [quiet, events] = [await client.events({ queue: "quiet" }), await client.events({ queue: "stream" })];
const ids = (await client.enqueueArray(hundred)).map((it) => it.id);
const seen: Event[] = [];
while (seen.length < 10) seen.push((await events.next()).value);
const waiting = client.enqueueAndWait("echo", "late", { delay_seconds: 2 });
await ask("restart");
ids.push(...(await client.enqueueArray(hundred)).map((it) => it.id));
await client.enqueue("echo", null, { queue: "quiet" });
equal(await waiting, "late");
const ended: string[] = [];
while (ended.length < ids.length) {
  const event: Event = seen.shift() ?? (await events.next()).value;
  if (event.kind !== "change") throw new Error(JSON.stringify(event));
  if (event.data.to === "completed") ended.push(event.data.job);
}
equal(ended.sort(), ids.sort());
await events.return!();
const began: Event = (await quiet.next()).value;
equal([began.kind, began.kind === "change" && began.data.to], ["change", "available"]);
await quiet.return!();
const ofOne = await all(await client.events({ job: ids[0]!, after: 0 }), (it) => it.kind === "change" && it.data.to);
equal([ofOne[0], ofOne.at(-1)], ["available", "completed"]);

// What is refused.
equal((await thrown(Refused, client.enqueue("missing"))).code, "handler_not_found");
const stranger = new Client({ server: client.server, token: "hst_wrong" });
const refused = await thrown(Refused, stranger.enqueue("echo"));
equal([refused.code, String(refused.stack).includes("hst_")], ["unauthenticated", false]);

// What a token may not see.
const made = await client.api.tokens.create({ name: "blind", allow: ["enqueue", "read"] });
const blind = new Client({ server: client.server, token: made.token });
const withheld = await thrown(ResultWithheld, blind.enqueueAndWait("echo", "zebra"));
equal(withheld.message.includes("read_payload"), true);
const unseen = await thrown(JobFailed, blind.enqueueAndWait("fail", { message: "zebra" }, { max_attempts: 1 }));
equal([unseen.message.includes("its message is withheld"), JSON.stringify(unseen.job).includes("zebra")], [true, false]);

// @ts-expect-error: a priority is a number, a state one of its words.
const wrong: NewJob = { handler: "echo", priority: "high" };
// @ts-expect-error
client.jobs({ state: "lost" });
// Standard input is still open.
process.exit();
