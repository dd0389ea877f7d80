// Calls each handler that is named ten times in Node, and writes what it returns and the median of its CPU time in milliseconds.

import { MockHost } from 'host-jobs';

await import(`file://${process.cwd()}/handlers.js`);

for (const name of process.argv.slice(2)) {
  const times = [];
  let result;
  for (let run = 0; run < 10; run += 1) {
    const before = process.cpuUsage();
    result = await new MockHost().call(name, null);
    const { user, system } = process.cpuUsage(before);
    times.push((user + system) / 1000);
  }
  console.log(JSON.stringify([result, times.sort((a, b) => a - b)[5]]));
}
