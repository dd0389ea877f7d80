// One handler for each package: it calls what the package is for.

import { handler } from 'host-jobs';

import Ajv from 'ajv';
import { parse as parseCsv } from 'csv-parse/sync';
import { buildSchema, graphqlSync } from 'graphql';
import * as jsYaml from 'js-yaml';
import Papa from 'papaparse';
import YAML from 'yaml';
import { z } from 'zod';

const smoke = (name, run) => handler(name, {}, run);

smoke('ajv', () => new Ajv().compile({ type: 'object', required: ['a'] })({ b: 1 }));
smoke('csv-parse', () => parseCsv('a;b\n1;"2;3"', { columns: true, delimiter: ';' }));
smoke('graphql', () => graphqlSync({ schema: buildSchema('type Query { a: Int }'), source: '{ a }', rootValue: { a: 1 } }).data.a);
smoke('js-yaml', () => jsYaml.load('a: [1, 2]').a);
smoke('papaparse', () => Papa.parse('a,b\n1,2', { header: true }).data);
smoke('yaml', () => YAML.stringify(YAML.parse('a: [1, 2]')));
smoke('zod', () => z.object({ a: z.number() }).safeParse({ a: 'x' }).error.issues[0].code);
