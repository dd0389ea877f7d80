// Handlers of `host` in JavaScript. See the README of this package.

export { Cancelled, HttpError, JobError, Retry, SqlError, StoreError } from './errors.js';
export { handler } from './handlers.js';
export { Response } from './http.js';
export { MockHost } from './mock.js';
