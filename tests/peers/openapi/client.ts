// Does what docs/http.md shows, with the client whose types are generated from the document.

import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

declare const process: { argv: string[] };

type Job = components["schemas"]["Job"];

const address = process.argv[2]!;
const client = createClient<paths>({ baseUrl: address });

/** Returns what was answered, or throws the problem document. */
function done<T>(answer: { data?: T; error?: unknown }): T {
  if (answer.error !== undefined || answer.data === undefined) {
    throw new Error(JSON.stringify(answer.error));
  }
  return answer.data;
}

function equal(seen: unknown, expected: unknown) {
  if (JSON.stringify(seen) !== JSON.stringify(expected)) {
    throw new Error(`${JSON.stringify(seen)} is not ${JSON.stringify(expected)}`);
  }
}

async function wait(id: string): Promise<Job> {
  const query = { timeout_seconds: 60 };
  return done(await client.GET("/api/v1/jobs/{id}/wait", { params: { path: { id }, query } }));
}

async function enqueue(body: components["schemas"]["NewJobs"]) {
  const accepted = done(await client.POST("/api/v1/jobs", { body }));
  return Array.isArray(accepted) ? accepted : [accepted];
}

// Enqueue.
const [echo] = await enqueue({ handler: "echo", params: { a: 1 } });
const echoed = await wait(echo!.id);
const state: components["schemas"]["JobState"] = echoed.state;
equal([state, echoed.result], ["completed", { a: 1 }]);
const [mail] = await enqueue({
  handler: "echo",
  params: { to: "a@example.com" },
  queue: "mail",
  unique: { key: "mail-42", scope: "retained" },
  priority: 2,
  delay_seconds: 3600,
  timeout_seconds: 10,
  max_attempts: 3,
  attributes: { team: "a" },
});
const [again] = await enqueue({
  handler: "echo",
  params: { to: "a@example.com" },
  queue: "mail",
  unique: { key: "mail-42", scope: "retained" },
});
equal([again!.id, again!.existing], [mail!.id, true]);
const [first, second] = await enqueue([
  { handler: "echo" },
  { handler: "echo", depends_on: ["#0"] },
]);

// Wait and inspect.
const path = { id: second!.id };
equal((await wait(second!.id)).depends_on, [first!.id]);
const attempts = done(await client.GET("/api/v1/jobs/{id}/attempts", { params: { path } }));
equal(attempts.items.map((attempt) => attempt.outcome), ["completed"]);
const [log] = await enqueue({ handler: "log", params: { lines: 2 } });
const logged = { path: { id: (await wait(log!.id)).id }, query: { limit: 100 } };
const lines = done(await client.GET("/api/v1/jobs/{id}/logs", { params: logged }));
equal(lines.items.map((line) => line.message), ["line 1 of 2", "line 2 of 2"]);

// Cancel and retry.
const mailed = { path: { id: mail!.id } };
const reason = { reason: "not needed", grace_seconds: 2 };
const cancelled = done(
  await client.POST("/api/v1/jobs/{id}/cancel", { params: mailed, body: reason }),
);
equal(cancelled.state, "cancelled");
const query = { state: "cancelled", queue: "mail", limit: 10, sort: "oldest" } as const;
const listed = done(await client.GET("/api/v1/jobs", { params: { query } }));
const ids: string[] = listed.items.map((job: Job) => job.id);
equal(ids, [mail!.id]);
const one = done(await client.POST("/api/v1/jobs/{id}/retry", { params: mailed }));
equal(one.id, mail!.id);
equal((await wait(mail!.id)).state, "completed");
const discarded = { state: "discarded", handler: "echo" } as const;
const many = done(await client.POST("/api/v1/jobs/retry", { params: { query: discarded } }));
equal([many.matched, many.changed], [0, 0]);
const counted = done(await client.GET("/api/v1/jobs/count", { params: { query: { queue: "mail" } } }));
equal([counted.jobs, counted.complete], [1, true]);

// Queues.
const queue = { path: { name: "mail" } };
equal(done(await client.POST("/api/v1/queues/{name}/pause", { params: queue })).paused, true);
equal(done(await client.POST("/api/v1/queues/{name}/resume", { params: queue })).paused, false);
const queues = done(await client.GET("/api/v1/queues")).items.map((it) => it.name);
equal(queues, ["default", "mail"]);

// Deploy: what is deployed already, so nothing changes.
const handler = { path: { name: "echo" } };
const { component } = done(await client.GET("/api/v1/handlers/{name}", { params: handler }));
const deployed = await client.GET("/api/v1/components/{name}", {
  params: { path: { name: component } },
});
equal(done(deployed).current, 1);

// Errors.
const refused = await client.POST("/api/v1/jobs", { body: { handler: "nobody" } });
equal(refused.error?.code, "handler_not_found");
// @ts-expect-error: the type of a priority is a number, that of a state one of its words.
await client.POST("/api/v1/jobs", { body: { handler: "echo", priority: "high" } });
