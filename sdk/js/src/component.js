// What a component imports and exports, in either engine. One has `null` for what is absent, the other `undefined`.

import * as artifacts from 'host:jobs/artifacts@1.2.0';
import * as control from 'host:jobs/control@1.2.0';
import * as http from 'host:jobs/http@1.2.0';
import * as jobs from 'host:jobs/jobs@1.2.0';
import * as limits from 'host:jobs/limits@1.2.0';
import * as log from 'host:jobs/log@1.2.0';
import * as secrets from 'host:jobs/secrets@1.2.0';
import * as sql from 'host:jobs/sql@1.2.0';
import * as state from 'host:jobs/state@1.2.0';

import { failure, HttpError, JobError, SqlError, StoreError } from './errors.js';
import { call, describe as list } from './handlers.js';
import { located } from './source_map.js';

/** Makes functions whose results are never `null`, and whose refusals are errors of a class. */
const offered = (functions, Refused) =>
  Object.fromEntries(
    Object.keys(functions).map((name) => [
      name,
      (...given) => {
        try {
          return functions[name](...given) ?? undefined;
        } catch (thrown) {
          // One engine throws what the host returns, the other an error that has it.
          const refused = thrown?.payload ?? thrown;
          throw Refused && refused?.kind ? new Refused(refused) : thrown;
        }
      },
    ]),
  );

export const host = {
  artifacts: offered(artifacts, StoreError),
  control: offered(control),
  http: offered(http, HttpError),
  jobs: offered(jobs, StoreError),
  limits: offered(limits, StoreError),
  log: offered(log),
  secrets: offered(secrets, StoreError),
  sql: offered(sql, SqlError),
  state: offered(state, StoreError),
};

/** Returns a record without the fields that are absent. */
const present = (record) => Object.fromEntries(Object.entries(record).filter(([, value]) => value != null));

export const describe = list;

/** Executes one attempt. */
export const attempt = async (job, params) => call(present(job), params, host);

/** Returns what to throw to the host for what was thrown. */
export const failed = (thrown) => failure(thrown, located);

/** Returns what is thrown if a handler waits and nothing is left that could end that. */
export const waitsForever = (job) =>
  new JobError(`the handler ${job.function} waits for a promise that nothing settles`, { kind: 'waits_forever' });

/** Logs what a promise was rejected with that nothing waited for. */
export const warn = (reason) => {
  const { val } = failure(reason, located);
  host.log.write('warn', `a promise was rejected, and nothing handled it: ${val.stack || val.message || val.reason || ''}`, []);
};
