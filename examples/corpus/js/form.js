// A form that is sent to a server, as browsers do.

import { handler } from 'host-jobs';

handler('form', {}, async (ctx, { url, fields }) => {
  const response = await ctx.fetch(`${url}/form`, { method: 'POST', body: new URLSearchParams(fields) });
  return (await response.json()).received;
});
