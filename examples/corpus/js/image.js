// The size of a picture, from the first bytes of a PNG.

import { handler, JobError } from 'host-jobs';

handler('image', {}, (ctx, { base64 }) => {
  const bytes = Uint8Array.from(atob(base64), (one) => one.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  if (view.getUint32(0) !== 0x89504e47) throw new JobError('not a PNG', { category: 'DATA_QUALITY', details: { first: bytes.slice(0, 4) } });
  return { width: view.getUint32(16), height: view.getUint32(20), depth: view.getUint8(24) };
});
