// What goes wrong. No error has a token in it.

/** Any error of this package. */
export class HostError extends Error {
  constructor(message) {
    super(message);
    this.name = new.target.name;
  }
}

/** The address, the token or the context cannot be used. */
export class SettingsError extends HostError {}

/** The host did not answer. It may have carried out the request if `mayHaveHappened`. */
export class Unreachable extends HostError {
  constructor(message, mayHaveHappened) {
    super(message);
    this.mayHaveHappened = mayHaveHappened;
  }
}

/** The host refused the request; `code` is one of those in docs/errors.md. */
export class Refused extends HostError {
  constructor(status, problem, retryAfter) {
    const title = problem.title ?? `HTTP status ${status} without a problem document: perhaps this is no host`;
    const said = [title, problem.detail].filter(Boolean).join(': ');
    super(problem.code ? `${said} (${problem.code})` : said);
    const { code = '', detail = '', next = '' } = problem;
    Object.assign(this, { status, code, title, detail, next, retryAfter });
  }
}

/** A job that was awaited has ended and did not complete; `job` is the whole of it. */
export class JobEnded extends HostError {
  constructor(job) {
    const { kind, message = 'its message is withheld from this token' } = job.failure ?? {};
    const why = kind ? `: ${kind}: ${message}` : '';
    super(`job ${job.id} was ${job.state}${why}`);
    this.job = job;
  }
}

/** The job was discarded: it failed and is not retried again. */
export class JobFailed extends JobEnded {}

/** The job was cancelled; `job.result` is what it had done, if it said so. */
export class JobCancelled extends JobEnded {}

/** The job has completed, but this token may not see its result; `job` is what it may see. */
export class ResultWithheld extends HostError {
  constructor(job) {
    super(
      `job ${job.id} has completed, but its result is withheld from this token, ` +
        'which needs the verb read_payload, or read_own for jobs that it enqueues itself',
    );
    this.job = job;
  }
}

/** The job has not ended in time, and continues. */
export class WaitTimeout extends HostError {
  constructor(job, timeoutMs) {
    super(`job ${job.id} is still ${job.state} after ${timeoutMs} ms; it continues`);
    this.job = job;
  }
}
