// What packages for Node expect as globals; it is part of a bundle only if its code names them.

export { Buffer } from 'node:buffer';
export { default as process } from 'node:process';
