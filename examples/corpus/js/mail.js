// A mail in HTML from a template that is a file of its own, with values escaped.

import { handler } from 'host-jobs';

import template from './mail.html';

const ESCAPES = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

handler('mail', {}, (ctx, params) =>
  template.trim().replace(/{{(\w+)}}/g, (_, name) => String(params[name] ?? '').replace(/[&<>"]/g, (one) => ESCAPES[one])),
);
