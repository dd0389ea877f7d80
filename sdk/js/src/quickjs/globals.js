// Makes global what QuickJS lacks, before any other module of the handler is evaluated.

import { console } from './console.js';
import { Promise } from './promise.js';
import { clearTimeout, queueMicrotask, setTimeout } from './queue.js';
import { random } from './random.js';
import { TextDecoder, TextEncoder } from './text.js';

Object.assign(globalThis, { clearTimeout, console, Promise, queueMicrotask, setTimeout, TextDecoder, TextEncoder });
Math.random = random;
