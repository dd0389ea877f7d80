// The handlers of a component.

import { Ctx } from './ctx.js';
import { JobError } from './errors.js';
import { misfit } from './schema.js';
import { asJson, shown, textOf } from './values.js';

const handlers = new Map();

/** Makes a function a handler of this name, and returns it. */
export function handler(name, about, run) {
  if (typeof run !== 'function') throw new TypeError(`handler ${shown(name)}: expected a function, got ${shown(run)}`);
  handlers.set(textOf(name, 'the name of a handler'), { about: about ?? {}, run });
  return run;
}

/** Lists the handlers. */
export function describe() {
  return [...handlers].map(([name, { about }]) => ({
    name,
    description: about.description,
    paramsSchema: optional(about.params),
    resultSchema: optional(about.result),
  }));
}

/** Executes one attempt: calls the handler that the job names with its params, and returns its result as JSON. */
export async function call(job, params, host) {
  const found = handlers.get(job.function);
  if (!found) {
    const message = `this component has no handler named ${job.function}`;
    throw new JobError(message, { kind: 'handler_not_found', category: 'CONFIGURATION' });
  }
  const given = JSON.parse(params);
  const wrong = misfit(found.about.params, given);
  if (wrong) {
    const message = `the params do not match the handler's type: ${wrong}`;
    throw new JobError(message, { kind: 'invalid_params', category: 'DATA_QUALITY' });
  }
  const result = await found.run(new Ctx(job, host), given);
  try {
    return asJson(result ?? null) ?? 'null';
  } catch (cause) {
    const message = `cannot write the result as JSON: ${shown(cause?.message ?? cause)}`;
    throw new JobError(message, { kind: 'invalid_result', retryable: false, cause });
  }
}

const optional = (schema) => (schema === undefined ? undefined : JSON.stringify(schema));
