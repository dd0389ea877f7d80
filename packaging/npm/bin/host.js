#!/usr/bin/env node
// Runs the program of this machine's package, which npm installs as an optional dependency.
'use strict';

const { spawn } = require('node:child_process');

const name = `host-jobs-cli-${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${name}/bin/host`);
} catch {
  console.error(`error: cannot find the package ${name}: host runs on Linux (x64, arm64), and npm must install optional dependencies`);
  process.exit(1);
}
const child = spawn(program, process.argv.slice(2), { stdio: 'inherit' });
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT']) {
  // A terminal sends the first to both; the second would end the host by force.
  process.on(signal, () => signal !== 'SIGINT' && child.kill(signal));
}
child.on('error', (error) => {
  console.error(`error: cannot start ${program}: ${error.message}`);
  process.exit(1);
});
child.on('exit', (code, signal) => {
  if (!signal) process.exit(code);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
