// Makes a component of a module: node build.mjs MODULE WIT COMPONENT

import { writeFile } from 'node:fs/promises';
import { componentize } from '@bytecodealliance/componentize-js';

const [sourcePath, witPath, output] = process.argv.slice(2);
const { component } = await componentize({ sourcePath, witPath, worldName: 'job' });
await writeFile(output, component);
