// What a warm start saves: a table that is made at import, and the same in a job.

import { handler } from 'host-jobs';

const make = () => new Map(Array.from({ length: 20_000 }, (_, n) => [`key-${n}`, { n, name: `name ${n}` }]));

const made = make();

const look = (table) => table.get('key-19999').n;

handler('none', {}, () => 19_999);
handler('at-import', {}, () => look(made));
handler('in-the-handler', {}, () => look(make()));
