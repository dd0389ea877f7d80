// A table as Excel writes it: a mark at its beginning, semicolons, quotes, decimal commas.

import { handler } from 'host-jobs';

function* rows(text) {
  let row = [];
  for (const [, quoted, plain, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^;\r\n]*))(;|\r?\n|$)/g)) {
    row.push(quoted === undefined ? plain : quoted.replaceAll('""', '"'));
    if (end === ';') continue;
    if (row.length > 1 || row[0]) yield row;
    row = [];
  }
}

handler('csv', {}, (ctx, { base64 }) => {
  const bytes = Uint8Array.from(atob(base64), (one) => one.charCodeAt(0));
  const [names, ...lines] = rows(new TextDecoder().decode(bytes));
  return lines.map((line) =>
    Object.fromEntries(names.map((name, at) => [name, /^-?\d+(,\d+)?$/.test(line[at]) ? Number(line[at].replace(',', '.')) : line[at]])),
  );
});
