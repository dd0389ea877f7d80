// `node:test` as far as tests use it, in a component: the handler `host:tests` lists the tests, or runs the one with a number. One
// that fails throws, as handlers do.

import { handler } from 'host-jobs';

const makeSuite = (name, parent, options = {}) => ({ name, parent, options, before: [], after: [], beforeEach: [], afterEach: [] });

const tests = [];
let current = makeSuite('');
let file = '';

/** Begins a file with tests. */
export function begin(name) {
  file = name;
  current = makeSuite(name);
}

const parts = (given) => {
  const run = given.find((it) => typeof it === 'function');
  const name = given.find((it) => typeof it === 'string') ?? (run?.name || '<anonymous>');
  return { name, run, options: given.find((it) => typeof it === 'object' && it !== null) ?? {} };
};

function add(given, more) {
  const { name, run, options } = parts(given);
  tests.push({ suite: current, name, run: run ?? (() => {}), options: { ...options, todo: options.todo ?? !run, ...more } });
  return Promise.resolve();
}

function addSuite(given, more) {
  const { name, run, options } = parts(given);
  const outer = current;
  current = makeSuite(name, outer, { ...options, ...more });
  try {
    if (run?.()?.then) throw new Error(`${file}: describe ${name}: an async function cannot describe tests in a component`);
  } finally {
    current = outer;
  }
  return Promise.resolve();
}

const withWays = (register) =>
  Object.assign((...given) => register(given), {
    only: (...given) => register(given),
    skip: (...given) => register(given, { skip: true }),
    todo: (...given) => register(given, { todo: true }),
  });

export const test = withWays(add);
export const it = test;
export const describe = withWays(addSuite);
export const suite = describe;

export const before = (run) => void current.before.push(run);
export const after = (run) => void current.after.push(run);
export const beforeEach = (run) => void current.beforeEach.push(run);
export const afterEach = (run) => void current.afterEach.push(run);

/** Returns the suites that a test is in, the outermost first. */
const suitesOf = (suite) => (suite ? [...suitesOf(suite.parent), suite] : []);

const nameOf = ({ suite, name }) => [...suitesOf(suite).map((it) => it.name), name].filter(Boolean).join(' > ');

/** Calls a test or a hook; one with a further parameter says with it when it has ended. */
function call(run, ...given) {
  if (run.length <= given.length) return run(...given);
  return new Promise((resolve, reject) => run(...given, (error) => (error ? reject(error) : resolve())));
}

/** What a test is given. */
class Context {
  skipped;
  failures = [];
  hooks = makeSuite('');
  mock = mock;

  constructor(name) {
    this.name = name;
    this.fullName = name;
    this.signal = new AbortController().signal;
    this.test = withWays((given, more) => this.#inner(given, more));
    this.it = this.test;
  }

  before = (run) => call(run, this);
  after = (run) => void this.hooks.after.push(run);
  beforeEach = (run) => void this.hooks.beforeEach.push(run);
  afterEach = (run) => void this.hooks.afterEach.push(run);
  diagnostic = (message) => console.log(message);
  runOnly = () => {};
  skip = (message) => {
    this.skipped = message || 'it skips itself';
  };
  todo = this.skip;

  /** Runs a test within this one, which fails if that does. */
  async #inner(given, more) {
    const { name, run, options } = parts(given);
    try {
      await execute({ suite: this.hooks, name, run, options: { ...options, ...more } });
    } catch (error) {
      this.failures.push(error);
    }
  }
}

async function execute({ suite, name, run, options }) {
  const suites = suitesOf(suite);
  const skip = [options, ...suites.map((it) => it.options)].map((it) => it.skip).find(Boolean);
  if (skip) return { outcome: 'skipped', message: skip === true ? undefined : skip };
  const context = new Context(name);
  const failures = [];
  const attempt = async (hook, ...given) => {
    try {
      await call(hook, ...given);
    } catch (error) {
      failures.push(error);
    }
  };
  for (const hook of suites.flatMap((it) => it.before)) await attempt(hook);
  for (const hook of suites.flatMap((it) => it.beforeEach)) await attempt(hook, context);
  if (!failures.length) await attempt(run ?? (() => {}), context);
  failures.push(...context.failures);
  const inward = [context.hooks, ...suites.toReversed()];
  for (const hook of [...inward.slice(1).flatMap((it) => it.afterEach), ...context.hooks.after]) await attempt(hook, context);
  for (const hook of inward.slice(1).flatMap((it) => it.after)) await attempt(hook);
  const todo = [options, ...suites.map((it) => it.options)].map((it) => it.todo).find(Boolean);
  if (failures.length && !todo) throw failures[0];
  if (todo) return { outcome: 'skipped', message: `todo${todo === true ? '' : `: ${todo}`}` };
  return context.skipped ? { outcome: 'skipped', message: context.skipped } : { outcome: 'passed' };
}

handler('host:tests', {}, (_ctx, number) => (number === null ? tests.map(nameOf) : execute(tests[number])));

const mocked = [];

function mockFunction(original = () => {}, implementation = original) {
  const calls = [];
  let does = implementation;
  const fn = function (...given) {
    const made = { arguments: given, this: this, target: new.target };
    try {
      made.result = new.target ? Reflect.construct(does, given, new.target) : Reflect.apply(does, this, given);
      return made.result;
    } catch (error) {
      made.error = error;
      throw error;
    } finally {
      calls.push(made);
    }
  };
  fn.mock = {
    calls,
    callCount: () => calls.length,
    mockImplementation: (next) => void (does = next),
    resetCalls: () => void (calls.length = 0),
    restore: () => void (does = original),
  };
  mocked.push(fn.mock);
  return fn;
}

function mockMethod(object, name, implementation = object[name]) {
  const own = Object.getOwnPropertyDescriptor(object, name);
  const fn = mockFunction(object[name], implementation);
  Object.defineProperty(object, name, { value: fn, configurable: true, writable: true });
  fn.mock.restore = () => (own ? Object.defineProperty(object, name, own) : delete object[name]);
  return fn;
}

export const mock = {
  fn: mockFunction,
  method: mockMethod,
  reset: () => mock.restoreAll(),
  restoreAll: () => mocked.forEach((it) => it.restore()),
  get timers() {
    throw new Error('mock.timers is not there in a component: ctx.sleep of a MockHost takes no time');
  },
};

export default Object.assign(test, { after, afterEach, before, beforeEach, describe, it, mock, suite, test });
